import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { KubeError, type Secret } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import pg from 'pg';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Problem } from '../http/problem.js';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectsRepository } from '../projects/projects.repository.js';
import { register, secretsOf, startTestApi, type TestApi } from '../testing.js';
import { AuthUsers } from './auth-users.js';
import { McpService } from './mcp.service.js';
import { WRONG_KEYS } from './mcp-keys.js';
import { McpTools, TOOL_NAMES, type ToolRequest } from './tools.js';

const KEY = 'service-role-key-of-it';
let api: TestApi;
let token: string;
let id: number;
let ref: string;

test.before(async () => {
  api = await startTestApi();
  ({ token } = await register(api));
  const { body } = await api.call('POST', '/projects', { token, json: { name: 'spoken' } });
  ({ id, ref } = body);
  await api.operator.provision(ref);
  await inDatabase(`
    create table notes (id int primary key, body text not null default 'none');
    insert into notes select n, 'note ' || n from generate_series(1, 3000) n;
    alter table notes enable row level security;
    create policy everyone on notes for select using (true);
    create function writes() returns int language sql as 'insert into notes values (-1) returning id';
    create function frees() returns void language plpgsql as
      'begin perform set_config(''transaction_read_only'', ''off'', false); insert into notes values (-2); end';
    create procedure commits() language plpgsql as 'begin commit; insert into notes values (-3); commit; end';
    create sequence numbers;`);
  await plantSecrets();
});

const CANARY = 'canary-of-a-secret';

/** Accounts with the rights of `auth/0002-grants`: readable by the owner, and by none of the API roles. */
async function plantSecrets(): Promise<void> {
  const client = new pg.Client({ ...api.cluster.postgres.admin(), database: `p-${ref}` });
  await client.connect();
  await client.query(`
    create schema auth;
    grant usage on schema auth to "postgres.${ref}", service_role;
    create table auth.users (id int primary key, email text, encrypted_password text);
    create table auth.refresh_tokens (id int primary key, token text);
    insert into auth.users values (1, 'ann@example.com', '${CANARY}');
    insert into auth.refresh_tokens values (1, '${CANARY}');
    grant select on all tables in schema auth to "postgres.${ref}" with grant option;
    analyze auth.users;`);
  await client.end();
  await inDatabase(`select set_config('x.y', encrypted_password, false) from auth.users`);
}
test.after(() => api?.close());

async function inDatabase(sql: string): Promise<pg.QueryResult> {
  const { host, port } = api.cluster.postgres.admin();
  const client = new pg.Client({ host, port, database: `p-${ref}`, user: `postgres.${ref}`, password: 'owner' });
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    await client.end();
  }
}

/** The SDK's client, over the API's socket. */
async function connect(
  era: 'legacy' | 'modern',
  apikey = KEY,
  onSend: (headers: Record<string, string>, body: string) => void = () => undefined,
): Promise<Client> {
  const client = new Client(
    { name: 'test', version: '1' },
    era === 'modern' ? { versionNegotiation: { mode: 'auto' } } : {},
  );
  const socketFetch = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const headers = Object.fromEntries(new Headers(init?.headers));
    const body = typeof init?.body === 'string' ? { body: init.body } : {};
    onSend(headers, body.body ?? '');
    const answer = await api.call(init?.method ?? 'GET', new URL(url).pathname, { headers, ...body });
    const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body);
    const isEmpty = [202, 204].includes(answer.status);
    return new Response(isEmpty ? null : text, {
      status: answer.status,
      headers: answer.headers as Record<string, string>,
    });
  };
  const url = new URL(`http://localhost/projects/${id}/mcp`);
  await client.connect(
    new StreamableHTTPClientTransport(url, { fetch: socketFetch, requestInit: { headers: { apikey } } }),
  );
  return client;
}

const textOf = (result: { content?: unknown }) => (result.content as { text: string }[])[0]?.text ?? '';
const call = async (name: string, args: Record<string, unknown> = {}) => {
  const client = await connect('legacy');
  const result = await client.callTool({ name, arguments: args });
  await client.close();
  return result as { isError?: boolean; content: unknown; structuredContent?: Record<string, unknown> };
};

for (const era of ['legacy', 'modern'] as const) {
  test(`the SDK’s client finds the seven tools with their schemas and calls one (${era} revision)`, async () => {
    const client = await connect(era);
    const { tools } = await client.listTools();
    assert.equal(
      tools.map(({ name }) => name),
      [...TOOL_NAMES],
    );
    for (const { inputSchema, outputSchema, annotations, description } of tools) {
      assert.is(inputSchema.type, 'object');
      assert.is(outputSchema?.type, 'object');
      assert.type(annotations?.readOnlyHint, 'boolean');
      assert.ok(description);
    }
    const result = await client.callTool({ name: 'run_sql', arguments: { sql: 'select 6 * 7 as answer' } });
    assert.equal((result.structuredContent as { rows: unknown }).rows, [{ answer: 42 }]);
    assert.equal(JSON.parse(textOf(result)), result.structuredContent);
    const sql = `select '{"n": 9007199254740993}'::jsonb as exact`;
    const exact = await client.callTool({ name: 'run_sql', arguments: { sql } });
    assert.match(textOf(exact), '{"exact":{"n":9007199254740993}}');
    // The client's own parser rounds the number.
    assert.equal((exact.structuredContent as { rows: unknown }).rows, [{ exact: { n: 9007199254740992 } }]);
    await client.close();
  });
}

test('a JSON-RPC client without an SDK gets initialize, ping, tools/list and errors as plain JSON', async () => {
  const rpc = (method: string, params?: object) =>
    api.call('POST', `/projects/${id}/mcp`, {
      headers: { apikey: KEY },
      json: { jsonrpc: '2.0', id: 1, method, params },
    });
  const clientInfo = { name: 'curl', version: '1' };
  const begun = await rpc('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
  assert.is(begun.status, 200);
  assert.is(begun.body.result.protocolVersion, '2025-06-18');
  assert.equal((await rpc('ping')).body, { jsonrpc: '2.0', id: 1, result: {} });
  assert.is((await rpc('tools/list')).body.result.tools.length, 7);
  assert.is((await rpc('nothing/like/this')).body.error.code, -32601);
  const wrong = (await rpc('tools/call', { name: 'no_such_tool', arguments: {} })).body;
  assert.ok(wrong.error?.code === -32602 || wrong.result?.isError, JSON.stringify(wrong));
  const unfit = (await rpc('tools/call', { name: 'run_sql', arguments: { statement: 1 } })).body;
  assert.ok(unfit.error?.code === -32602 || unfit.result?.isError, JSON.stringify(unfit));
});

test('an invalid message or tool call gets a JSON-RPC error without text of a validator', async () => {
  const post = (json: unknown) => api.call('POST', `/projects/${id}/mcp`, { headers: { apikey: KEY }, json });
  for (const [message, status, code, known] of [
    [{}, 400, -32600, null],
    [[{ jsonrpc: '2.0', id: 1, method: 'ping' }], 400, -32600, null],
    ['ping', 400, -32600, null],
    [{ jsonrpc: '1.0', id: 7, method: 'ping' }, 400, -32600, 7],
    [{ jsonrpc: '2.0', id: 'a', method: 3 }, 400, -32600, 'a'],
    [{ jsonrpc: '2.0', id: {}, method: 'ping' }, 400, -32600, null],
    [{ jsonrpc: '2.0', id: 1, method: 'ping', params: [] }, 400, -32600, 1],
    [{ jsonrpc: '2.0', id: 1, method: 'tools/call' }, 200, -32602, 1],
    [{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} }, 200, -32602, 1],
    [{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'run_sql', arguments: [] } }, 200, -32602, 1],
  ] as const) {
    const answer = await post(message);
    const { jsonrpc, id: of, error } = answer.body;
    const messageText = JSON.stringify(message);
    assert.equal([answer.status, jsonrpc, of, error.code], [status, '2.0', known, code], messageText);
    assert.match(error.message, /^Invalid (Request|params): .*(JSON-RPC|tools\/call)/, messageText);
    assert.not.match(JSON.stringify(answer.body), /invalid_type|expected|zod|issues/i, messageText);
  }
});

test('a client that accepts only JSON and sends no clientInfo is served', async () => {
  for (const method of ['initialize', 'ping', 'tools/list'])
    for (const accept of ['application/json', 'application/*;q=0.5', '*/*']) {
      const { status, body } = await api.call('POST', `/projects/${id}/mcp`, {
        headers: { apikey: KEY, accept },
        json: { jsonrpc: '2.0', id: 1, method },
      });
      assert.is(status, 200, `${method} ${accept}: ${JSON.stringify(body)}`);
      assert.ok(body.result, method);
    }
});

test('a subscription to changes of the tools ends at once, because tools never change', async () => {
  const sent: { headers: Record<string, string>; body: string }[] = [];
  const client = await connect('modern', KEY, (headers, body) => sent.push({ headers, body }));
  assert.equal(client.getServerCapabilities(), { tools: { listChanged: false } });
  await client.listTools();
  await client.close();
  const { headers, body } = sent.at(-1) as (typeof sent)[0];
  const { params, ...message } = JSON.parse(body);
  const input = { _meta: params._meta, notifications: { toolsListChanged: true } };
  const { status, body: text } = await api.call('POST', `/projects/${id}/mcp`, {
    headers: { ...headers, 'mcp-method': 'subscriptions/listen' },
    json: { ...message, method: 'subscriptions/listen', params: input },
  });
  assert.is(status, 200);
  assert.match(String(text), /"resultType":"complete"/);
});

test('a tool’s validators are compiled once, not for each message', () => {
  const tools = new McpTools({} as never, {} as never, {} as never);
  const project = { project: { metadata: { name: 'x' }, spec: {} }, serviceRoleKey: '' } as unknown as ToolRequest;
  type Registered = { _registeredTools: Record<string, { inputSchema: unknown; outputSchema: unknown }> };
  const [one, other] = [1, 2].map(() => (tools.serverOf(project) as unknown as Registered)._registeredTools);
  for (const name of TOOL_NAMES) {
    assert.ok(one?.[name]?.inputSchema);
    assert.is(one?.[name]?.inputSchema, other?.[name]?.inputSchema);
    assert.is(one?.[name]?.outputSchema, other?.[name]?.outputSchema);
  }
});

test('a notification gets a 202 without content', async () => {
  const { status, body } = await api.call('POST', `/projects/${id}/mcp`, {
    headers: { apikey: KEY },
    json: { jsonrpc: '2.0', method: 'notifications/initialized' },
  });
  assert.equal([status, body], [202, '']);
});

test('tools describe the tables, one table’s schema and the project', async () => {
  const { tables } = (await call('list_tables', { schema: 'public' })).structuredContent as {
    tables: { name: string }[];
  };
  assert.equal(
    tables.map(({ name }) => name),
    ['notes'],
  );
  const table = (await call('get_table_schema', { table: 'notes' })).structuredContent as Record<string, unknown>;
  assert.equal(
    (table.columns as { name: string; nullable: boolean }[]).map(({ name, nullable }) => [name, nullable]),
    [
      ['id', false],
      ['body', false],
    ],
  );
  assert.is(table.row_level_security, true);
  assert.is((table.policies as { name: string }[])[0]?.name, 'everyone');
  const missing = await call('get_table_schema', { table: `no'; drop table notes --\\` });
  assert.is(missing.isError, true);
  const info = (await call('get_project_info')).structuredContent as Record<string, unknown>;
  assert.equal([info.id, info.name, info.status, info.sql_read_only], [id, 'spoken', 'healthy', true]);
});

const WRITES: string[] = [
  'insert into notes values (0)',
  'update notes set body = null',
  'delete from notes',
  'drop table notes',
  'create table more (id int)',
  'select writes()',
  'select frees()',
  'call commits()',
  "select nextval('numbers')",
  'set transaction read write',
  'set session characteristics as transaction read write; insert into notes values (0)',
  'commit; insert into notes values (0)',
  'rollback; begin; insert into notes values (0); commit',
  'with gone as (delete from notes returning 1) select * from gone',
  'explain analyze delete from notes',
  'do $$ begin insert into notes values (0); end $$',
  'do $$ begin commit; set transaction read write; insert into notes values (0); end $$',
  "copy notes to program 'touch /tmp/x'",
  'alter role current_user set default_transaction_read_only = off',
  'select lo_create(4242)',
  'truncate notes',
  'grant all on notes to public',
];
for (const sql of WRITES) {
  test(`read-only run_sql rejects: ${sql}`, async () => {
    const result = await call('run_sql', { sql });
    assert.is(result.isError, true, JSON.stringify(result));
    const { rows } = await inDatabase(
      'select count(*)::int as count, min(id) as least, count(body)::int as bodies from notes',
    );
    assert.equal(rows, [{ count: 3000, least: 1, bodies: 3000 }]);
  });
}

const SECRETS_READ: string[] = [
  'select encrypted_password from auth.users',
  'select * from auth.refresh_tokens',
  'table auth.users',
  'copy auth.users to stdout',
  `select query_to_xml('select * from auth.users', true, true, '')`,
  `select table_to_xml('auth.users', true, true, '')`,
  `select schema_to_xml('auth', true, true, '')`,
  `select database_to_xml(true, true, '')`,
  `select set_config('role', 'none', false), encrypted_password from auth.users`,
  `select set_config('role', 'postgres.REF', false)`,
  `set role "postgres.REF"`,
  `set session authorization "postgres.REF"`,
  `reset session authorization`,
  `do $$ begin reset role; raise '%', (select encrypted_password from auth.users); end $$`,
  `do $$ begin perform set_config('role', 'none', false); raise '%', (select token from auth.refresh_tokens); end $$`,
  `do $$ begin set role "postgres.REF"; raise '%', (select encrypted_password from auth.users); end $$`,
  `do $$ begin reset session authorization; raise '%', (select encrypted_password from auth.users); end $$`,
  `do $$ begin set local session authorization "postgres.REF"; raise '%', (select email from auth.users); end $$`,
  `do $$ begin set transaction read write; insert into notes values (0); end $$`,
  `create function pg_temp.f() returns text security definer language sql ` +
    `as 'select encrypted_password from auth.users'`,
  `select most_common_vals from pg_stats where schemaname = 'auth' and most_common_vals is not null`,
  'select histogram_bounds from pg_stats where schemaname = $$auth$$',
  'select stavalues1 from pg_statistic',
  'select rolpassword from pg_authid',
  'select passwd from pg_shadow',
  'select umoptions from pg_user_mapping',
  'select subconninfo from pg_subscription',
  `select pg_read_file('/etc/passwd')`,
  `select pg_ls_dir('.')`,
  `select dblink('host=127.0.0.1', 'select 1')`,
  `select query from pg_stat_activity where usename = 'postgres.REF' and query not like '%insufficient%' limit 0`,
];
for (const sql of SECRETS_READ) {
  test(`read-only run_sql shows no secret for: ${sql}`, async () => {
    const result = await call('run_sql', { sql: sql.replaceAll('REF', ref) });
    assert.not.match(JSON.stringify(result), new RegExp(CANARY));
    const { rows = [] } = (result.structuredContent ?? {}) as { rows?: unknown[] };
    // Statements that succeed may show only what service_role may read, which is nothing of schema auth.
    assert.ok(result.isError || rows.length === 0 || /_to_xml/.test(sql), JSON.stringify(result));
  });
}

test('the error of a rejected run_sql names the setting, and the role that the SQL ran as', async () => {
  const result = await call('run_sql', { sql: 'select * from auth.users' });
  assert.match(textOf(result), /permission denied for table users\nsqlstate: 42501\n.*mcp_writes.*service_role/);
  const { structuredContent } = await call('run_sql', { sql: 'select current_user, session_user' });
  assert.equal((structuredContent as { rows: unknown[] }).rows, [
    { current_user: 'service_role', session_user: `authenticator.${ref}` },
  ]);
});

test('a writing tool returns isError and names mcp_writes unless the project has set mcp_writes', async () => {
  const calledMethods: string[] = [];
  const create = AuthUsers.prototype.create;
  const remove = AuthUsers.prototype.remove;
  AuthUsers.prototype.create = async (_, input) => {
    calledMethods.push('create');
    return { id: '1', user_metadata: {}, app_metadata: {}, ...input } as never;
  };
  AuthUsers.prototype.remove = async () => void calledMethods.push('remove');
  const calls = [
    ['create_auth_user', { email: 'eve@example.com', password: 'a long password' }],
    ['delete_auth_user', { id: '11111111-1111-4111-8111-111111111111' }],
  ] as const;
  try {
    for (const [name, args] of calls) {
      const result = await call(name, args);
      assert.is(result.isError, true);
      assert.match(textOf(result), new RegExp(`^${name} changes data\\. .*mcp_writes`));
    }
    assert.equal(calledMethods, []);
    await api.call('PATCH', `/projects/${id}`, { token, json: { mcp_writes: true } });
    for (const [name, args] of calls) await call(name, args);
    assert.equal(calledMethods, ['create', 'remove']);
  } finally {
    Object.assign(AuthUsers.prototype, { create, remove });
    await api.call('PATCH', `/projects/${id}`, { token, json: { mcp_writes: null } });
  }
});

test('a COMMIT ends the read-only transaction, and no statement runs after it', async () => {
  await call('run_sql', { sql: 'commit' });
  assert.is((await call('run_sql', { sql: 'insert into notes values (0)' })).isError, true);
});

test('an SQL error is a result with Postgres’ message, and the next call works', async () => {
  const result = await call('run_sql', { sql: 'selec 1' });
  assert.is(result.isError, true);
  assert.match(textOf(result), /syntax error at or near "selec"\nsqlstate: 42601/);
  assert.not((await call('run_sql', { sql: 'select 1' })).isError);
});

/** Returns the client's response and the log entry when a query throws `error`. */
async function failing(
  error: unknown,
): Promise<{ text: string; log: { err: { message: string }; request: string }[] }> {
  const log: { err: { message: string }; request: string }[] = [];
  const logger = pino({}, { write: (line: string) => void log.push(JSON.parse(line)) });
  const queries = { runOn: () => Promise.reject(error) };
  const tools = new McpTools(queries as never, {} as never, logger);
  const service = new McpService({} as never, tools, logger, api.settings);
  const toolRequest = { id, project: { metadata: { name: ref }, spec: {} }, request: { id: 'its-id', raw: {} } };
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'run_sql', arguments: { sql: 'x' } } };
  const request = new Request('http://localhost/', { method: 'POST', headers, body: '{}' });
  const answer = await service.exchange(toolRequest as unknown as ToolRequest, request, message);
  const { result } = (await answer.json()) as { result: { isError: boolean; content: unknown } };
  assert.is(result.isError, true);
  return { text: textOf(result), log };
}

test('an internal error gives the client a request id, and the log the cause', async () => {
  const { text, log } = await failing(new KubeError(403, 'Forbidden', 'secrets is forbidden', 'secrets'));
  assert.is(text, 'This is a fault of the platform; its log names it by its-id.');
  assert.equal(
    log.map(({ err, request }) => [/secrets is forbidden/.test(err.message), request]),
    [[true, 'its-id']],
  );
});

test('an unavailable service is reported in the words of the REST API, and the log has the cause', async () => {
  const cause = new Error('connect ECONNREFUSED');
  const { text, log } = await failing(new Problem('unavailable', 'It does not answer. Try again.', { cause }));
  assert.is(text, 'It does not answer. Try again.');
  assert.equal(
    log.map(({ err, request }) => [err.message, request]),
    [['connect ECONNREFUSED', 'its-id']],
  );
});

test('SQL is cancelled when its client disconnects', async () => {
  const client = new AbortController();
  const params = { name: 'run_sql', arguments: { sql: "select pg_sleep(20), 'left alone'" } };
  const json = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
  const asking = api.call('POST', `/projects/${id}/mcp`, { headers: { apikey: KEY }, json, signal: client.signal });
  const running = async () =>
    (await api.admin.query("select from pg_stat_activity where state = 'active' and query like '%left alone%'"))
      .rowCount;
  // The query that looks is one of them.
  await until(running, (count) => count === 2);
  const begin = performance.now();
  client.abort();
  assert.instance(await asking.catch((error: unknown) => error), Error);
  await until(running, (count) => count === 1);
  assert.ok(performance.now() - begin < 15_000);
});

test('a result with too many rows is truncated, and one with too many bytes is rejected', async () => {
  const cut = (await call('run_sql', { sql: 'select id from notes' })).structuredContent as {
    rows: unknown[];
    truncated: boolean;
  };
  assert.equal([cut.rows.length, cut.truncated], [1000, true]);
  for (const bytes of [2_000_000, 3_000_000]) {
    const large = await call('run_sql', { sql: `select repeat('x', ${bytes}) as x` });
    assert.is(large.isError, true);
    assert.match(textOf(large), /larger than 1 MiB/);
  }
});

test('a project allows writes by MCP while mcp_writes is set', async () => {
  assert.is((await api.call('PATCH', `/projects/${id}`, { token, json: { mcp_writes: true } })).body.mcp_writes, true);
  const written = await call('run_sql', { sql: `insert into notes values (5000, 'by a tool') returning id` });
  assert.equal((written.structuredContent as { rows: unknown }).rows, [{ id: 5000 }]);
  await inDatabase('delete from notes where id = 5000');
  await api.call('PATCH', `/projects/${id}`, { token, json: { mcp_writes: null } });
  assert.is((await call('run_sql', { sql: 'insert into notes values (5000)' })).isError, true);
});

test('only the project’s own service_role key is accepted', async () => {
  const other = (await api.call('POST', '/projects', { token, json: { name: 'other' } })).body;
  await api.operator.provision(other.ref);
  const keys = await api.operator.client.get<Secret>(`${secretsOf(ref)}/project-keys`);
  const anon = Buffer.from(keys.data?.['anon-key'] ?? '', 'base64').toString();
  const json = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  const attempts: [string, Record<string, string>][] = [
    ['no key', {}],
    ['an empty key', { apikey: '' }],
    ['the anon key', { apikey: anon }],
    ['a bearer token', { authorization: `Bearer ${token}` }],
    ['the key as a bearer token', { authorization: `Bearer ${KEY}` }],
    ['another key of the same length', { apikey: 'x'.repeat(KEY.length) }],
    ['the key and more', { apikey: `${KEY}, ${KEY}` }],
  ];
  for (const [what, headers] of attempts) {
    const { status, body } = await api.call('POST', `/projects/${id}/mcp`, { headers, json });
    assert.is(status, 401, what);
    assert.not.match(JSON.stringify(body), new RegExp(KEY), what);
  }
  assert.is((await api.call('POST', '/projects/999999/mcp', { headers: { apikey: KEY }, json })).status, 401);
});

/** How many reads of the platform's database and of Secrets happen while `work` runs. */
async function readsDuring(work: () => Promise<void>): Promise<{ database: number; secrets: number }> {
  const { byId } = ProjectsRepository.prototype;
  const { getSecret, getProject } = Kubernetes.prototype;
  const reads = { database: 0, secrets: 0 };
  ProjectsRepository.prototype.byId = function (...args) {
    reads.database += 1;
    return byId.apply(this, args);
  };
  Kubernetes.prototype.getSecret = function (...args) {
    reads.secrets += 1;
    return getSecret.apply(this, args);
  };
  Kubernetes.prototype.getProject = function (...args) {
    reads.secrets += 1;
    return getProject.apply(this, args);
  };
  try {
    await work();
    return reads;
  } finally {
    ProjectsRepository.prototype.byId = byId;
    Object.assign(Kubernetes.prototype, { getSecret, getProject });
  }
}

test('wrong keys are rate-limited by network, read no database, and block no other network or known key', async () => {
  const json = { jsonrpc: '2.0', id: 1, method: 'ping' };
  const knock = (apikey: string, address: string, project = id) =>
    api.call('POST', `/projects/${project}/mcp`, { headers: { apikey, 'x-forwarded-for': address }, json });
  assert.is((await knock(KEY, '192.0.2.1')).status, 200);
  const statuses: number[] = [];
  const began = performance.now();
  const reads = await readsDuring(async () => {
    for (let i = 0; i < 600; i++) {
      statuses.push((await knock(`wrong ${i}`, '198.51.100.7', i % 2 ? id : 999_000 + i)).status);
    }
  });
  assert.ok(statuses.indexOf(429) >= WRONG_KEYS.burst);
  assert.ok(statuses.filter((status) => status === 401).length < 300, String(statuses.lastIndexOf(401)));
  assert.ok(statuses.every((status) => status === 401 || status === 429));
  assert.is(reads.database, 0);
  const seconds = (performance.now() - began) / 1000;
  assert.ok(reads.secrets <= seconds + 1, `${reads.secrets} reads in ${seconds} s`);
  const refused = await knock('wrong', '198.51.100.7');
  assert.is(refused.status, 429);
  assert.ok(Number(refused.headers['retry-after']) >= 1);
  assert.is((await knock(KEY, '203.0.113.9')).status, 200);
  assert.is((await knock(KEY, '198.51.100.7')).status, 200);
  assert.is((await knock('wrong', '203.0.113.9')).status, 401);
});

test('a rotated key is accepted at once, and the former key is rejected', async () => {
  const json = { jsonrpc: '2.0', id: 1, method: 'ping' };
  const knock = async (apikey: string) =>
    (await api.call('POST', `/projects/${id}/mcp`, { headers: { apikey }, json })).status;
  const put = async (key: string) => {
    const path = `${secretsOf(ref)}/project-keys`;
    const secret = await api.operator.client.get<Secret>(path);
    const data = { ...secret.data, 'service-role-key': Buffer.from(key).toString('base64') };
    await api.operator.client.request({ method: 'PUT', path, body: { ...secret, data } });
    const { status } = await api.operator.get(ref);
    await api.operator.setStatus(ref, { ...status, message: `with ${key}` } as never);
  };
  assert.is(await knock(KEY), 200);
  await put('the next key');
  assert.is(await knock(KEY), 401);
  await until(
    () => knock('the next key'),
    (status) => status === 200,
  );
  await put(KEY);
  assert.is(await knock('the next key'), 401);
  await until(
    () => knock(KEY),
    (status) => status === 200,
  );
});

test('MCP rejects requests of pages of another site, and accepts those of the platform’s own origin', async () => {
  const json = { jsonrpc: '2.0', id: 1, method: 'ping' };
  const from = (origin: string) => api.call('POST', `/projects/${id}/mcp`, { headers: { apikey: KEY, origin }, json });
  assert.is((await from('https://evil.example')).status, 403);
  assert.is((await from('null')).status, 403);
  assert.is((await from('http://localhost:4000')).status, 200);
});

test('GET returns the endpoint to its owner, its key only with secrets:read, and 405 for an event stream', async () => {
  const { body, status } = await api.call('GET', `/projects/${id}/mcp`, { token });
  assert.is(status, 200);
  assert.equal(body.tools, [...TOOL_NAMES]);
  assert.is(body.protocol_versions[0], '2026-07-28');
  const [server] = Object.values(body.config.mcpServers) as { url: string; headers: { apikey: string } }[];
  assert.is(server?.url, `http://localhost:4000/projects/${id}/mcp`);
  assert.is(server?.headers.apikey, KEY);
  const { body: pat } = await api.call('POST', '/tokens', { token, json: { name: 'few', scopes: ['projects:read'] } });
  const few = await api.call('GET', `/projects/${id}/mcp`, { token: pat.token });
  assert.not.match(JSON.stringify(few.body), new RegExp(KEY));
  const stranger = await register(api);
  assert.is((await api.call('GET', `/projects/${id}/mcp`, { token: stranger.token })).status, 404);
  const headers = { accept: 'text/event-stream', apikey: KEY };
  assert.is((await api.call('GET', `/projects/${id}/mcp`, { headers })).status, 405);
  assert.is((await api.call('DELETE', `/projects/${id}/mcp`, { headers })).status, 405);
});

test.run();
