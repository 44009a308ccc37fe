/**
 * Commands on accounts and the projects that they own, for an installation without mail. In: the arguments of the
 * command and a session on the platform database. Out: the text to print. Called by `commands.ts`. The running API
 * reads the changed rows within half a minute.
 */
import { createHash, randomBytes } from 'node:crypto';
import type pg from 'pg';
import { ASSIGN } from '../projects/project-owners.repository.js';

export const OWNER_COMMANDS_HELP = `
  verify <address>          marks the address of the account as verified
  reset-password <address>  prints a link with which the account sets a new password, once, within an hour
  unassigned                lists projects that no account owns
  assign <ref> <address>    gives the project to the account; spec.owner follows
  retained                  lists deleted projects whose data is retained
  forget-retained <ref>     records that the retained data was removed, so that its account can be deleted
`;

type Command = { words: number; run(database: pg.Client, ...words: string[]): Promise<string> };

export const OWNER_COMMANDS: Readonly<Record<string, Command>> = {
  verify: { words: 1, run: verify },
  'reset-password': { words: 1, run: resetPassword },
  unassigned: { words: 0, run: unassigned },
  assign: { words: 2, run: assign },
  retained: { words: 0, run: retained },
  'forget-retained': { words: 1, run: forgetRetained },
};

const normal = (address = '') => address.trim().toLowerCase();
const noAccount = (email: string) => new Error(`no account has the address ${email}`);

async function verify(database: pg.Client, address?: string): Promise<string> {
  const email = normal(address);
  const { rowCount } = await database.query(
    'update platform.users set email_verified_at = coalesce(email_verified_at, now()) where email = $1',
    [email],
  );
  if (rowCount === 0) throw noAccount(email);
  return `${email} is verified.`;
}

async function resetPassword(database: pg.Client, address?: string): Promise<string> {
  const email = normal(address);
  const token = randomBytes(32).toString('base64url');
  const { rowCount } = await database.query(
    `insert into platform.mail_tokens (user_id, purpose, address, hash, expires_at)
     select id, 'reset', email, $2, now() + interval '1 hour' from platform.users where email = $1`,
    [email, createHash('sha256').update(token).digest()],
  );
  if (rowCount === 0) throw noAccount(email);
  const use = `Give this to the holder of ${email}; it works once, for an hour. Open, at the platform's address:`;
  return `${use}\n/auth/link#reset=${token}`;
}

async function unassigned(database: pg.Client): Promise<string> {
  const { rows } = await database.query<{ ref: string; owner: string }>(
    'select ref, owner from platform.projects where owner_id is null order by id',
  );
  return rows.map(({ ref, owner }) => `${ref}\t${owner}`).join('\n') || 'Every project has an owner.';
}

async function assign(database: pg.Client, ref?: string, address?: string): Promise<string> {
  const email = normal(address);
  let place = 0;
  const sql = ASSIGN.replaceAll('?', () => {
    place += 1;
    return `$${place}`;
  });
  const { rowCount } = await database.query(sql, [ref, email]);
  if (rowCount === 0) throw new Error(`there is no project ${ref}, or no enabled account ${email}`);
  return `${email} owns ${ref}.`;
}

async function retained(database: pg.Client): Promise<string> {
  const { rows } = await database.query<{ ref: string; email: string }>(
    'select r.ref, u.email from platform.retained_projects r join platform.users u on u.id = r.owner_id order by r.ref',
  );
  return rows.map(({ ref, email }) => `${ref}\t${email}`).join('\n') || 'No data of deleted projects is retained.';
}

async function forgetRetained(database: pg.Client, ref?: string): Promise<string> {
  const { rowCount } = await database.query('delete from platform.retained_projects where ref = $1', [ref]);
  if (rowCount === 0) throw new Error(`there is no record of retained data of a deleted project ${ref}`);
  return `The record of ${ref} is removed.`;
}
