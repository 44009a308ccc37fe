import { ForeignKeyConstraintViolationException, MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { SessionsRepository } from '../accounts/sessions.repository.js';
import { User } from '../accounts/user.entity.js';
import { Token } from './token.entity.js';

export type TokenFields = Pick<Token, 'name' | 'hash' | 'hint' | 'scopes'> & {
  parentId: number | null;
  projectIds: number[] | null;
  expiresAt: Date | null;
};

/**
 * The account that makes a token, and its session; null: one of a user token of an earlier release, or another token
 * makes it.
 */
interface Maker {
  userId: number;
  sessionId: number | null;
}

@Injectable()
export class TokensRepository {
  constructor(
    private readonly orm: MikroORM,
    private readonly sessions: SessionsRepository,
  ) {}

  /**
   * Null when its user, its parent or the session that makes it is no more. The lock on the user's row makes tokens
   * that are made at once wait for one another, and for a change of the password, which ends sessions.
   */
  async add({ userId, sessionId }: Maker, fields: TokenFields, limit: number): Promise<Token | 'too many' | null> {
    try {
      return await this.orm.em.fork().transactional(async (em) => {
        await em.execute('select from platform.users where id = ? for update', [userId]);
        const isBySession = fields.parentId === null;
        if (isBySession && !(await this.sessions.userOf(userId, sessionId ?? undefined, em))) return null;
        if ((await em.count(Token, { user: userId })) >= limit) return 'too many';
        const token = em.create(Token, { ...fields, user: em.getReference(User, userId), createdAt: new Date() });
        await em.flush();
        return token;
      });
    } catch (error) {
      if (error instanceof ForeignKeyConstraintViolationException) return null;
      throw error;
    }
  }

  one(userId: number, id: number): Promise<Token | null> {
    return this.orm.em.fork().findOne(Token, { id, user: userId });
  }

  of(userId: number): Promise<Token[]> {
    return this.orm.em.fork().find(Token, { user: userId }, { orderBy: { id: 'asc' } });
  }

  /** With its user; null when there is none, or it has ended. */
  live(hash: Buffer): Promise<(Token & { user: User }) | null> {
    const inTime = { $or: [{ expiresAt: null }, { expiresAt: { $gt: new Date() } }] };
    return this.orm.em.fork().findOne(Token, { hash, ...inTime }, { populate: ['user'] }) as Promise<
      (Token & { user: User }) | null
    >;
  }

  /** With all that descend from it, which the foreign key takes along. */
  async remove(userId: number, id: number): Promise<boolean> {
    return (await this.orm.em.fork().nativeDelete(Token, { id, user: userId })) > 0;
  }

  async touch(id: number, at: Date): Promise<void> {
    await this.orm.em.fork().nativeUpdate(Token, { id }, { lastUsedAt: at });
  }
}
