import { MikroORM, UniqueConstraintViolationException } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import { User } from './user.entity.js';

@Injectable()
export class UsersRepository {
  constructor(private readonly orm: MikroORM) {}

  byEmail(email: string): Promise<User | null> {
    return this.orm.em.fork().findOne(User, { email });
  }

  byId(id: number): Promise<User | null> {
    return this.orm.em.fork().findOne(User, { id });
  }

  async add(email: string, passwordHash: string, fullName: string | null): Promise<User> {
    const em = this.orm.em.fork();
    const user = em.create(User, { email, passwordHash, fullName, createdAt: new Date() });
    try {
      await em.flush();
      return user;
    } catch (error) {
      if (!(error instanceof UniqueConstraintViolationException)) throw error;
      throw new Problem('email_taken', 'An account with this e-mail address exists. Log in instead.', {
        errors: [{ field: 'email', message: 'belongs to an account already' }],
      });
    }
  }
}
