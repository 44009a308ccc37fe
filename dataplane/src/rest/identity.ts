/** Sets the caller's identity in Postgres for one transaction: what policies and functions read. */
import type { IncomingMessage } from 'node:http';
import type { ApiRole } from '@slipway/crds';
import type { Statement } from '../sql/pool.js';
import type { Caller } from '../tenant.js';

/** Statement timeouts, as on Supabase; a statement of service_role may be maintenance. */
const STATEMENT_TIMEOUT: Record<ApiRole, string> = { anon: '3s', authenticated: '8s', service_role: '30s' };

/** A function may ask for a time of its own, not for more than this. */
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
/** Answers with a number: set_config itself would send every value back. */
const textOf = (settings: string[]) =>
  `select pg_catalog.num_nulls(${settings.map((setting, i) => `set_config('${setting}', $${i + 1}, true)`).join(', ')})`;
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
 * Returns the cookies as JSON. They are always set: a setting that was set once is an empty text afterwards, which is
 * no JSON.
 */
function cookiesOf(header: string | undefined): string {
  if (header === undefined) return '{}';
  const pairs = header.split(';').map((pair) => {
    const [name = '', ...value] = pair.split('=');
    return [name.trim(), value.join('=').trim()] as const;
  });
  return JSON.stringify(Object.fromEntries(pairs.filter(([name]) => name !== '')));
}
