/** Changes of an account's password and address, and its deletion, each in one transaction. */
import {
  type EntityManager,
  ForeignKeyConstraintViolationException,
  MikroORM,
  UniqueConstraintViolationException,
} from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import { withAccountsLock } from './accounts-lock.js';
import { deleteAccount, keepFormerAddress } from './former-addresses.js';
import type { MailToken } from './mail-tokens.repository.js';

@Injectable()
export class LifeCycleRepository {
  constructor(private readonly orm: MikroORM) {}

  /** Sets a new password, and ends all sessions except `keep`. Returns false if the password is no longer `known`. */
  changePassword(userId: number, hashes: { known: string; next: string }, keep: number | null): Promise<boolean> {
    return this.transaction(async (run) => {
      const changed = await run(
        `update platform.users set password_hash = ?, unnamed_sessions_ended_at = now()
         where id = ? and password_hash = ? returning id`,
        [hashes.next, userId, hashes.known],
      );
      if (changed.length === 0) return false;
      await endSessions(run, userId, keep);
      return true;
    });
  }

  /**
   * Sets the password by a mailed link, which proves the address. If the address was not verified before, a stranger
   * may have registered it, so the account's personal access tokens end too. Returns false if the link was used.
   */
  resetPassword({ id, userId, address }: MailToken, passwordHash: string): Promise<boolean> {
    return this.transaction(async (run) => {
      if (!(await consume(run, id))) return false;
      const [user] = await run<{ verified: boolean }>(
        `select email_verified_at is not null as verified from platform.users where id = ? and email = ? for update`,
        [userId, address],
      );
      if (!user) return false;
      await run(
        `update platform.users set password_hash = ?, unnamed_sessions_ended_at = now(),
           email_verified_at = coalesce(email_verified_at, now()) where id = ? returning id`,
        [passwordHash, userId],
      );
      await endSessions(run, userId, null);
      if (!user.verified) await run('delete from platform.tokens where user_id = ? returning id', [userId]);
      return true;
    });
  }

  /** Verifies the address that a link was mailed to, and makes it the account's. Returns false if the link was used. */
  verify({ id, userId, address, email }: MailToken): Promise<boolean> {
    return this.transaction(async (run, em) => {
      if (!(await consume(run, id))) return false;
      if (address !== email) await takeAddress(em, userId, address);
      const verified = await run(
        'update platform.users set email_verified_at = now() where id = ? and email = ? returning id',
        [userId, address],
      );
      return verified.length > 0;
    });
  }

  /** Changes the address without proof, for an installation that sends no mail. */
  changeAddress(userId: number, address: string): Promise<void> {
    return this.transaction((_run, em) => takeAddress(em, userId, address));
  }

  /** Deletes the account. No later account with its address inherits anything. */
  async remove(userId: number): Promise<void> {
    try {
      await withAccountsLock(this.orm, async (em) => {
        await refuseLastAdministrator(runner(em), userId);
        await deleteAccount(em, userId);
      });
    } catch (error) {
      if (!(error instanceof ForeignKeyConstraintViolationException)) throw error;
      throw accountInUse();
    }
  }

  private transaction<T>(work: (run: Run, em: EntityManager) => Promise<T>): Promise<T> {
    return this.orm.em.fork().transactional((em) => work(runner(em as EntityManager), em as EntityManager));
  }
}

export const accountInUse = () =>
  new Problem(
    'account_in_use',
    'The account owns projects, or retained data of deleted projects. ' +
      'Delete the projects first; an administrator removes retained data.',
  );

type Run = <T = object>(sql: string, values: unknown[]) => Promise<T[]>;

const runner =
  (em: EntityManager): Run =>
  <T>(sql: string, values: unknown[]) =>
    em.execute(sql, values) as unknown as Promise<T[]>;

const consume = async (run: Run, id: number) =>
  (await run('delete from platform.mail_tokens where id = ? and expires_at > now() returning id', [id])).length > 0;

/** Ends the sessions except `keep`, and revokes every mailed link. */
async function endSessions(run: Run, userId: number, keep: number | null): Promise<void> {
  await run('delete from platform.sessions where user_id = ? and id is distinct from ?::integer returning id', [
    userId,
    keep,
  ]);
  await run('delete from platform.mail_tokens where user_id = ? returning id', [userId]);
}

/** Changes the account's address. Its projects keep their owner, and `spec.owner` of each is updated. */
async function takeAddress(em: EntityManager, userId: number, address: string): Promise<void> {
  const run = runner(em);
  await keepFormerAddress(em, userId);
  const clashes = await run(
    `select from platform.projects mine join platform.projects other using (held_name)
     where mine.owner_id = ? and other.owner = ? and other.owner_id is distinct from mine.owner_id limit 1`,
    [userId, address],
  );
  if (clashes.length > 0)
    throw new Problem('conflict', 'A project of that address has the name of one of yours. Ask an administrator.');
  try {
    await run(
      'update platform.users set email = ?, email_since = now(), email_verified_at = null where id = ? returning id',
      [address, userId],
    );
  } catch (error) {
    if (!(error instanceof UniqueConstraintViolationException)) throw error;
    throw new Problem('email_taken', 'Another account has this e-mail address.', {
      errors: [{ field: 'email', message: 'belongs to an account' }],
    });
  }
  await run('delete from platform.mail_tokens where user_id = ? returning id', [userId]);
  await run('update platform.projects set follow_owner = true where owner_id = ? returning id', [userId]);
}

async function refuseLastAdministrator(run: Run, userId: number): Promise<void> {
  const all = await run<{ id: number }>(
    'select id from platform.users where is_administrator and disabled_at is null limit 2',
    [],
  );
  if (all.length === 1 && all[0]?.id === userId)
    throw new Problem('last_administrator', 'The last administrator can not be deleted. Appoint another first.');
}
