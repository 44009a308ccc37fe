/** Sets the caller's identity in Postgres for one transaction, for policies and functions. */
import type { IncomingMessage } from 'node:http';
import type { ApiRole } from '@slipway/installation';
import type { Caller } from '../../projects/tenant.js';
import type { Statement } from '../../sql/pool.js';

/** Statement timeouts by role, as on Supabase. Statements of service_role may be maintenance. */
const STATEMENT_TIMEOUT: Record<ApiRole, string> = { anon: '3s', authenticated: '8s', service_role: '30s' };

/** Maximum timeout in milliseconds that a function may set for itself. */
const MAX_TIMEOUT_MS = 30_000;

const SETTINGS = [
  'search_path',
  'role',
  'request.jwt.claims',
  'request.method',
  'request.path',
  'request.headers',
  'request.cookies',
  'statement_timeout',
  'transaction_read_only',
];
/** Returns a number, because set_config itself would return every value. */
const textOf = (settings: string[]) => {
  const calls = settings.map((setting, i) => `set_config('${setting}', $${i + 1}, true)`);
  return `select pg_catalog.num_nulls(${calls.join(', ')})`;
};
const TEXT = textOf(SETTINGS);
const TEXT_WITH_TIMEZONE = textOf([...SETTINGS, 'timezone']);

export interface Circumstances {
  searchPath: string;
  path: string;
  readOnly: boolean;
  /** Timeout of the called function, if it has its own. */
  timeoutMs: number | null | undefined;
  timezone: string | undefined;
}

export function identityStatement(
  incoming: IncomingMessage,
  caller: Caller,
  { searchPath, path, readOnly, timeoutMs, timezone }: Circumstances,
): Statement {
  const values = [
    searchPath,
    caller.role,
    caller.claims,
    incoming.method,
    path,
    JSON.stringify(incoming.headers),
    cookiesOf(incoming.headers.cookie),
    timeoutMs ? `${Math.min(timeoutMs, MAX_TIMEOUT_MS)}ms` : STATEMENT_TIMEOUT[caller.role],
    readOnly ? 'on' : 'off',
  ];
  if (timezone === undefined) return { name: 'identity', text: TEXT, values };
  return { name: 'identity-timezone', text: TEXT_WITH_TIMEZONE, values: [...values, timezone] };
}

/**
 * Returns the cookies as JSON. Always set, because a setting is an empty text after its first use, which is no JSON.
 */
function cookiesOf(header: string | undefined): string {
  if (header === undefined) return '{}';
  const pairs = header.split(';').map((pair) => {
    const [name = '', ...value] = pair.split('=');
    return [name.trim(), value.join('=').trim()] as const;
  });
  return JSON.stringify(Object.fromEntries(pairs.filter(([name]) => name !== '')));
}
