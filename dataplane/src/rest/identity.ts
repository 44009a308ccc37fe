/** Who calls and how, told to Postgres for the length of one transaction: what policies and functions read. */
import type { IncomingMessage } from 'node:http';
import type { ApiRole } from '@slipway/crds';
import type { Statement } from '../sql/pool.js';
import type { Caller } from '../tenant.js';
import { identifier } from './statement/writer.js';

/** As on Supabase; a statement of service_role may be maintenance. */
const STATEMENT_TIMEOUT: Record<ApiRole, string> = { anon: '3s', authenticated: '8s', service_role: '30s' };

/** After the exposed schema; where a project's extensions live. */
const EXTRA_SCHEMAS = ['public', 'extensions'];

const SETTINGS = [
  'search_path',
  'role',
  'request.jwt.claims',
  'request.method',
  'request.path',
  'request.headers',
  'statement_timeout',
  'transaction_read_only',
];
const TEXT = `select ${SETTINGS.map((setting, i) => `set_config('${setting}', $${i + 1}, true)`).join(', ')}`;

export function identityStatement(
  incoming: IncomingMessage,
  caller: Caller,
  { schema, path, readOnly }: { schema: string; path: string; readOnly: boolean },
): Statement {
  const searchPath = [...new Set([schema, ...EXTRA_SCHEMAS])].map(identifier).join(', ');
  const headers = JSON.stringify(incoming.headers);
  const values = [
    searchPath,
    caller.role,
    caller.claims,
    incoming.method,
    path,
    headers,
    STATEMENT_TIMEOUT[caller.role],
    readOnly ? 'on' : 'off',
  ];
  return { name: 'identity', text: TEXT, values };
}
