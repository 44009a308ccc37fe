/**
 * Adds accounts. In: the account, and the reason for which it may register. Out: the user, or null if the reason is no
 * longer valid: an invitation works once, and the setup code only until there is an administrator. Safe for concurrent
 * requests.
 */
import { type EntityManager, MikroORM, UniqueConstraintViolationException } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { User } from '../callers/user.entity.js';
import { Problem } from '../http/problem.js';
import { withAccountsLock } from './accounts-lock.js';

export type Ground =
  | { kind: 'open'; firstIsAdministrator: boolean }
  | { kind: 'setup' }
  | { kind: 'invitation'; hash: Buffer };

export type NewUser = Pick<User, 'email' | 'passwordHash'> & { fullName: string | null };

const NO_ADMINISTRATOR = 'not exists (select from platform.users where is_administrator)';
const USABLE = 'hash = ? and used_at is null and expires_at > now() and (email is null or email = ?)';

@Injectable()
export class RegistrationsRepository {
  constructor(private readonly orm: MikroORM) {}

  async hasNoAdministrator(): Promise<boolean> {
    const [row] = (await this.orm.em.fork().execute(`select ${NO_ADMINISTRATOR} as holds`)) as { holds: boolean }[];
    return row?.holds ?? false;
  }

  async isUsable(hash: Buffer, email: string): Promise<boolean> {
    const rows = await this.orm.em.fork().execute(`select from platform.invitations where ${USABLE}`, [hash, email]);
    return rows.length > 0;
  }

  async add(user: NewUser, ground: Ground): Promise<User | null> {
    try {
      return await withAccountsLock(this.orm, (em) => addWithin(em, user, ground));
    } catch (error) {
      if (!(error instanceof UniqueConstraintViolationException)) throw error;
      throw new Problem('email_taken', 'An account with this e-mail address exists. Log in instead.', {
        errors: [{ field: 'email', message: 'belongs to an account' }],
      });
    }
  }
}

async function addWithin(em: EntityManager, fields: NewUser, ground: Ground): Promise<User | null> {
  const isAdministrator = await isToBeAdministrator(em, ground);
  if (ground.kind === 'setup' && !isAdministrator) return null;
  const user = em.create(User, { ...fields, isAdministrator, createdAt: new Date() });
  await em.flush();
  if (ground.kind !== 'invitation') return user;
  const used = await em.execute(
    `update platform.invitations set used_at = now(), used_by = ? where ${USABLE} returning id`,
    [user.id, ground.hash, user.email],
  );
  if (used.length > 0) return user;
  await em.remove(user).flush();
  return null;
}

async function isToBeAdministrator(em: EntityManager, ground: Ground): Promise<boolean> {
  const asFirst = ground.kind === 'open' && ground.firstIsAdministrator;
  if (!asFirst && ground.kind !== 'setup') return false;
  const condition = asFirst ? 'not exists (select from platform.users)' : NO_ADMINISTRATOR;
  const [row] = (await em.execute(`select ${condition} as holds`)) as { holds: boolean }[];
  return row?.holds ?? false;
}
