/**
 * Commands on accounts, for an administrator of the server who has no administrator's token. In: the words of the
 * command, and a session on the platform database. Out: the text to print, or an error. Called by `admin.ts`.
 */
import type pg from 'pg';
import { OWNER_COMMANDS, OWNER_COMMANDS_HELP } from './owner-commands.js';

export const COMMANDS_HELP = `
  appoint <address>   makes the account of this e-mail address an administrator, and enables it
  accounts            lists the accounts
${OWNER_COMMANDS_HELP}`;

export async function runCommand([name, ...words]: readonly string[], database: pg.Client): Promise<string> {
  const [address] = words;
  if (name === 'appoint' && address && words.length === 1) return await appoint(database, address);
  if (name === 'accounts' && words.length === 0) return await accounts(database);
  const command = Object.hasOwn(OWNER_COMMANDS, name ?? '') ? OWNER_COMMANDS[name as string] : undefined;
  if (command?.words === words.length) return await command.run(database, ...words);
  throw new Error(`${problemOf(name, words)}. The commands are:\n${COMMANDS_HELP}`);
}

function problemOf(name: string | undefined, words: readonly string[]): string {
  if (name === undefined) return 'a command is missing';
  if (!['appoint', 'accounts', ...Object.keys(OWNER_COMMANDS)].includes(name)) return `there is no command "${name}"`;
  return words.length === 0 ? `${name} needs an argument` : `${name} does not accept "${words.join(' ')}"`;
}

async function appoint(database: pg.Client, address: string): Promise<string> {
  const email = address.trim().toLowerCase();
  const { rowCount } = await database.query(
    'update platform.users set is_administrator = true, disabled_at = null where email = $1',
    [email],
  );
  if (rowCount === 0) throw new Error(`no account has the address ${email}: register it first`);
  return `${email} is an administrator.`;
}

async function accounts(database: pg.Client): Promise<string> {
  const { rows } = await database.query<{ id: number; email: string; is_administrator: boolean; disabled: boolean }>(
    'select id, email, is_administrator, disabled_at is not null as disabled from platform.users order by id',
  );
  const lines = rows.map(({ id, email, is_administrator, disabled }) =>
    [id, email, is_administrator ? 'administrator' : '', disabled ? 'disabled' : ''].filter(Boolean).join('\t'),
  );
  return lines.join('\n') || 'There is no account.';
}
