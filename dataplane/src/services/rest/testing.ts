/**
 * REST service over its own database for tests, behind a bare HTTP server that reads the caller from the token without
 * verification.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { API_ROLES, type ApiRole } from '@slipway/installation';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { releaseBody } from '../../http/request-body.js';
import type { BackendTenant, Caller } from '../../projects/tenant.js';
import { createRestService, type RestOptions } from './index.js';
import { startStatementTap } from './statement-tap.testing.js';

const ROLES = `
  create role anon; create role authenticated; create role service_role bypassrls;
  create role authenticator login noinherit password 'authenticator';
  grant anon, authenticated, service_role to authenticator;
  create schema auth; create schema extensions;
  grant usage on schema auth, extensions, public to anon, authenticated, service_role;
  create function auth.uid() returns uuid language sql stable as $$
    select (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid $$;
  alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
  alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
  create function extensions.watch() returns event_trigger language plpgsql
    as $$ begin perform pg_notify('pgrst', 'reload schema'); end $$;
  create event trigger ddl on ddl_command_end execute function extensions.watch();
  create event trigger dropped on sql_drop execute function extensions.watch();
`;

export interface TestRequest {
  headers?: Record<string, string>;
  body?: unknown;
  role?: ApiRole;
  sub?: string;
}

export interface TestResponse {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test knows what it requested
  body: any;
}

export interface RestHarness {
  postgres: TestPostgres;
  url: string;
  /** Runs SQL as superuser. */
  sql(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
  client(role: ApiRole, sub?: string): SupabaseClient;
  fetch(path: string, init?: RequestInit & { role?: ApiRole; sub?: string }): Promise<Response>;
  /** Sends a request, and parses a JSON response. A body that is not text is sent as JSON. */
  ask(method: string, path: string, options?: TestRequest): Promise<TestResponse>;
  close(): Promise<void>;
}

const token = (claims: object) => `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`;

function callerOf(authorization: string | undefined): Caller {
  const claims = Buffer.from(authorization?.split('.')[1] ?? '', 'base64url').toString() || '{"role":"anon"}';
  const { role } = JSON.parse(claims) as { role: ApiRole };
  if (!API_ROLES.includes(role)) throw new Error(`no such role: ${role}`);
  return { role, claims };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `onStatement` gets the text of each statement that the service sends to Postgres. */
export async function startRestHarness(
  schema: string,
  options: RestOptions = {},
  onStatement?: (text: string) => void,
): Promise<RestHarness> {
  const postgres = await startTestPostgres();
  const sql = async (text: string, values: unknown[] = []) => {
    const client = new pg.Client(postgres.admin());
    await client.connect();
    try {
      const { rows } = await client.query(text, values.length > 0 ? values : undefined);
      return rows ?? [];
    } finally {
      await client.end();
    }
  };
  await sql(ROLES);
  await sql(schema);
  const service = createRestService(options);
  const { host, port } = postgres.admin();
  const tap = onStatement ? await startStatementTap(`${host}/.s.PGSQL.${port}`, onStatement) : undefined;
  const way = tap ? { host: '127.0.0.1', port: tap.port } : {};
  const authenticator = { ...postgres.admin(), ...way, user: 'authenticator', password: 'authenticator' };
  const server = createServer((incoming, outgoing) => {
    const [path = '/', query = ''] = (incoming.url ?? '/').replace(/^\/rest\/v1/, '').split(/\?(.*)/s);
    const tenant: BackendTenant = {
      ref: 'test',
      revision: '1',
      incarnation: '1',
      suspended: false,
      kind: 'backend',
      upstream: 'pooled',
      otherJwtSecrets: [],
      jwtSecret: '',
      anonKey: '',
      serviceRoleKey: '',
      url: `http://${incoming.headers.host}`,
      authenticator,
      authAdmin: authenticator,
      owner: authenticator,
      replicationSlot: 'none',
      type: 'shared',
      plan: 'free',
      services: new Set(['rest']),
    };
    const caller = callerOf(incoming.headers.authorization);
    const from = { token: undefined, address: '127.0.0.1' };
    service
      .handle({ tenant, caller, ...from, path: path || '/', query, requestId: '1', incoming, outgoing })
      .finally(() => releaseBody(incoming));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const keyOf = (role: ApiRole, sub?: string) => token({ role, ...(sub ? { sub } : {}) });
  const send: RestHarness['fetch'] = (path, { role = 'service_role', sub, ...init } = {}) =>
    fetch(`${url}/rest/v1${path}`, {
      ...init,
      headers: { ...init.headers, authorization: `Bearer ${keyOf(role, sub)}` },
    });
  return {
    postgres,
    url,
    sql,
    ask: async (method, path, { headers = {}, body, ...who } = {}) => {
      const response = await send(path, {
        method,
        headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        ...who,
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, body: parsed(text) };
    },
    client: (role, sub) =>
      createClient(url, keyOf(role, sub), { auth: { persistSession: false, autoRefreshToken: false } }),
    fetch: send,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await service.close();
      await tap?.close();
      await postgres.close();
    },
  };
}
