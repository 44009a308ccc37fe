/**
 * Reads and changes accounts for administrators. No change removes the last administrator, even if two changes run at
 * once.
 */

import { type EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { normalAddress } from '@slipway/crds';
import { withAccountsLock } from '../accounts/accounts-lock.js';
import { deleteAccount } from '../accounts/former-addresses.js';
import { missing, Problem } from '../http/problem.js';
import type { AccountChange, AccountQuery } from './administration.schema.js';

export interface AccountRow {
  id: number;
  email: string;
  full_name: string | null;
  is_administrator: boolean;
  disabled_at: Date | string | null;
  allowed_plans: AccountChange['allowed_plans'] & (string[] | null);
  allowed_types: AccountChange['allowed_types'] & (string[] | null);
  max_projects: number | null;
  max_machines: number | null;
  projects: number;
  created_at: Date | string;
}

const SELECT = `
  select id, email, full_name, is_administrator, disabled_at, to_jsonb(allowed_plans) as allowed_plans,
    to_jsonb(allowed_types) as allowed_types, max_projects, max_machines, created_at,
    (select count(*)::integer from platform.projects p where p.owner_id = u.id) as projects
  from platform.users u`;

@Injectable()
export class AccountsAdministrationRepository {
  constructor(private readonly orm: MikroORM) {}

  list({ limit = 100, after = 0, email }: AccountQuery): Promise<AccountRow[]> {
    const sql = `${SELECT} where id > ? and (?::text is null or email = ?) order by id limit ?`;
    const address = email === undefined ? null : normalAddress(email);
    return this.orm.em.fork().execute(sql, [after, address, address, limit]) as unknown as Promise<AccountRow[]>;
  }

  one(id: number): Promise<AccountRow> {
    return oneWithin(this.orm.em.fork() as EntityManager, id);
  }

  change(callerId: number, id: number, change: AccountChange): Promise<AccountRow> {
    return withAccountsLock(this.orm, async (em) => {
      await expectAdministrator(em, callerId);
      const { assignments, values } = assignmentsOf(change);
      await em.execute(`update platform.users set ${assignments.join(', ')} where id = ?`, [...values, id]);
      const changed = await oneWithin(em, id);
      await expectSomeAdministrator(em);
      return changed;
    });
  }

  /**
   * Returns the refs of deleted projects with retained data of the account. Deletions that this program did not record
   * are missing.
   */
  async retainedRefs(id: number): Promise<string[]> {
    const sql = 'select ref from platform.retained_projects where owner_id = ?';
    const rows = (await this.orm.em.fork().execute(sql, [id])) as { ref: string }[];
    return rows.map(({ ref }) => ref);
  }

  /**
   * Deletes the account with its tokens. Counts projects and retained data under a lock of the account's row, which the
   * creation of a project takes too. No later account with its address inherits anything.
   */
  remove(callerId: number, id: number): Promise<void> {
    return withAccountsLock(this.orm, async (em) => {
      await expectAdministrator(em, callerId);
      await em.execute('select from platform.users where id = ? for update', [id]);
      const { projects } = await oneWithin(em, id);
      if (projects > 0) throw inUse(`${projects} projects`);
      const notes = 'select from platform.retained_projects where owner_id = ?';
      const retained = (await em.execute(notes, [id])).length;
      if (retained > 0) throw inUse(`retained data of ${retained} deleted projects`);
      await deleteAccount(em, id);
      await expectSomeAdministrator(em);
    });
  }
}

async function oneWithin(em: EntityManager, id: number): Promise<AccountRow> {
  const [row] = (await em.execute(`${SELECT} where id = ?`, [id])) as unknown as AccountRow[];
  if (!row) throw missing('account');
  return row;
}

/** Checks the caller again, who may have been demoted, disabled or deleted since the token was verified. */
async function expectAdministrator(em: EntityManager, id: number): Promise<void> {
  const sql = 'select from platform.users where id = ? and is_administrator and disabled_at is null';
  if ((await em.execute(sql, [id])).length === 0) {
    throw new Problem('not_allowed', 'Your account is no longer an administrator.');
  }
}

async function expectSomeAdministrator(em: EntityManager): Promise<void> {
  const sql = 'select from platform.users where is_administrator and disabled_at is null limit 1';
  if ((await em.execute(sql)).length > 0) return;
  throw new Problem('last_administrator', 'This is the last administrator. Make another account administrator first.');
}

/** SQL that makes an array from a JSON parameter, because the driver's placeholder does not accept `text[]`. */
const ARRAY = '(select array_agg(value) from jsonb_array_elements_text(?::jsonb))';

function assignmentsOf(change: AccountChange): { assignments: string[]; values: unknown[] } {
  const assignments: string[] = [];
  const values: unknown[] = [];
  const set = (assignment: string, value: unknown) => {
    assignments.push(assignment);
    values.push(value);
  };
  const setList = (column: string, list: readonly string[] | null) => {
    if (list === null) assignments.push(`${column} = null`);
    else set(`${column} = coalesce(${ARRAY}, '{}')`, JSON.stringify(list));
  };
  if (change.administrator !== undefined) set('is_administrator = ?', change.administrator);
  if (change.disabled !== undefined)
    set('disabled_at = case when ? then coalesce(disabled_at, now()) end', change.disabled);
  if (change.allowed_plans !== undefined) setList('allowed_plans', change.allowed_plans);
  if (change.allowed_types !== undefined) setList('allowed_types', change.allowed_types);
  if (change.max_projects !== undefined) set('max_projects = ?', change.max_projects);
  if (change.max_machines !== undefined) set('max_machines = ?', change.max_machines);
  return { assignments, values };
}

export const inUse = (what: string) =>
  new Problem('account_in_use', `The account has ${what}. Delete them first, or disable the account.`);
