import { ForeignKeyConstraintViolationException, MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { SessionsRepository } from '../accounts/sessions.repository.js';
import { User } from '../callers/user.entity.js';
import { Outbox } from '../outbox/outbox.js';
import { Token } from './token.entity.js';

export type TokenFields = Pick<Token, 'name' | 'hash' | 'hint' | 'scopes'> & {
  parentId: number | null;
  projectIds: number[] | null;
  expiresAt: Date | null;
};

/** Account and session that create a token; a null session: a user token of an earlier release, or another token. */
interface Maker {
  userId: number;
  sessionId: number | null;
}

@Injectable()
export class TokensRepository {
  constructor(
    private readonly orm: MikroORM,
    private readonly sessions: SessionsRepository,
    private readonly outbox: Outbox,
  ) {}

  /**
   * Adds a token. Returns null if its account, parent or session no longer exists. Locks the account's row, so that
   * concurrent creations and a change of the password run one after another.
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
        const data = { name: token.name, scopes: token.scopes };
        const event = {
          key: `token-${token.id}/created`,
          type: 'account.token_created',
          at: token.createdAt,
          data,
        } as const;
        await this.outbox.addForAccount(em, userId, event);
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

  /** Returns the token with its account; null if there is none, or it has expired. */
  live(hash: Buffer): Promise<(Token & { user: User }) | null> {
    const inTime = { $or: [{ expiresAt: null }, { expiresAt: { $gt: new Date() } }] };
    return this.orm.em.fork().findOne(Token, { hash, ...inTime }, { populate: ['user'] }) as Promise<
      (Token & { user: User }) | null
    >;
  }

  /** Deletes the token; the foreign key deletes its descendants. */
  async remove(userId: number, id: number): Promise<boolean> {
    return (await this.orm.em.fork().nativeDelete(Token, { id, user: userId })) > 0;
  }

  async touch(id: number, at: Date): Promise<void> {
    await this.orm.em.fork().nativeUpdate(Token, { id }, { lastUsedAt: at });
  }
}
