import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { User } from '../callers/user.entity.js';

@Injectable()
export class UsersRepository {
  constructor(private readonly orm: MikroORM) {}

  byEmail(email: string): Promise<User | null> {
    return this.orm.em.fork().findOne(User, { email });
  }

  byId(id: number): Promise<User | null> {
    return this.orm.em.fork().findOne(User, { id });
  }
}
