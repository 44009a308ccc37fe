/**
 * Tests MCP at a project's URL with the official SDK's client, in the current protocol revision and earlier ones. It
 * covers what MCP's inspector checks: the handshake, the tools' schemas and results, and errors of the protocol.
 */
import { randomUUID } from 'node:crypto';
import { Client, type JSONObject, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import type { WalkedProject } from './walked-project.js';

const CURRENT = '2026-07-28';
/** Earlier revisions, whose sessions begin with `initialize`, newest first. */
const EARLIER = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;
const HEADER_MISMATCH = -32_020;
const PATIENCE_MS = 30_000;

const SQL = `
  create table remembered (id int primary key, note text default 'none');
  insert into remembered values (1);
`;

interface McpDetails {
  protocol_versions: string[];
  tools: string[];
  config: { mcpServers: Record<string, { url: string; headers: Record<string, string> }> };
}
interface Answer {
  status: number;
  headers: Headers;
  body: { id?: unknown; result?: Record<string, unknown>; error?: { code: number; message: string } } | undefined;
}

export function walkMcp(test: Test, given: () => WalkedProject): void {
  /** Returns the settings that a person copies from the project's page into a desktop client. */
  async function details(): Promise<McpDetails & { url: string; headers: Record<string, string> }> {
    const { person, project } = given();
    const { status, body } = await person.call<McpDetails>('GET', `/projects/${project.id}/mcp`);
    assert.is(status, 200);
    const [server] = Object.values(body.config.mcpServers);
    assert.ok(server);
    return { ...body, ...server };
  }
  async function connect(era: 'earlier' | 'current', sent: RequestInit[] = []): Promise<Client> {
    const { url, headers } = await details();
    const client = new Client(
      { name: 'walk', version: '1' },
      era === 'current' ? { versionNegotiation: { mode: 'auto' } } : {},
    );
    const { network } = given().platform;
    const fetch = (at: string | URL, init?: RequestInit) => {
      if (init?.method === 'POST') sent.push(init);
      return network.fetch(at, init);
    };
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch, requestInit: { headers } }));
    return client;
  }
  /** Sends one message without an SDK. */
  async function raw(body: unknown, changed: Record<string, string> = {}, method = 'POST'): Promise<Answer> {
    const { url, headers } = await details();
    const response = await given().platform.network.fetch(url, {
      method,
      headers: {
        ...headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...changed,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json');
    return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : undefined };
  }
  const message = (method: string, params?: object, id: number | string = 1) => ({
    jsonrpc: '2.0',
    id,
    method,
    params,
  });

  for (const era of ['earlier', 'current'] as const) {
    test(`MCP, ${era} revision: each tool has a JSON Schema that its results match`, async () => {
      const { person, project } = given();
      await person.query(project.id, `drop table if exists remembered; ${SQL}`);
      const client = await connect(era);
      assert.is(client.getNegotiatedProtocolVersion(), era === 'current' ? CURRENT : EARLIER[0]);
      assert.is(client.getServerVersion()?.name, `slipway-${project.ref}`);
      assert.equal(client.getServerCapabilities(), { tools: { listChanged: false } });
      assert.ok(client.getInstructions());
      if (era === 'earlier') await client.ping();

      const { tools } = await client.listTools();
      assert.equal(
        tools.map(({ name }) => name),
        (await details()).tools,
      );
      const validator = new AjvJsonSchemaValidator();
      const outputs = new Map(
        tools.map(({ name, title, description, annotations, inputSchema, outputSchema }) => {
          assert.ok(title && description && annotations, name);
          assert.is(inputSchema.type, 'object', name);
          assert.type(validator.getValidator(inputSchema as JSONObject), 'function');
          return [name, validator.getValidator(outputSchema as JSONObject)] as const;
        }),
      );
      const call = async (name: string, args: Record<string, unknown> = {}) => {
        const result = await client.callTool({ name, arguments: args });
        const text = (result.content as { text: string }[])[0]?.text ?? '';
        assert.not(result.isError, `${name}: ${text}`);
        const checked = outputs.get(name)?.(result.structuredContent);
        assert.ok(checked?.valid, `${name}: ${checked?.errorMessage}`);
        assert.equal(JSON.parse(text), result.structuredContent, name);
        outputs.delete(name);
        return result.structuredContent as Record<string, unknown>;
      };
      assert.equal((await call('run_sql', { sql: 'select note from remembered' })).rows, [{ note: 'none' }]);
      assert.ok(JSON.stringify(await call('list_tables', { schema: 'public' })).includes('"remembered"'));
      assert.is((await call('get_table_schema', { table: 'remembered' })).name, 'remembered');
      const newUser = { email: `${randomUUID()}@example.com`, password: 'a long password' };
      const early = await client.callTool({ name: 'create_auth_user', arguments: newUser });
      assert.is(early.isError, true);
      assert.match(JSON.stringify(early.content), /mcp_writes/);
      const setWrites = (mcp_writes: boolean | null) => person.call('PATCH', `/projects/${project.id}`, { mcp_writes });
      await setWrites(true);
      const { user } = (await call('create_auth_user', newUser)) as { user: { id: string } };
      assert.ok(JSON.stringify(await call('list_auth_users', { per_page: 200 })).includes(user.id));
      assert.is((await call('delete_auth_user', { id: user.id })).deleted, true);
      await setWrites(null);
      assert.is((await call('get_project_info')).ref, project.ref);
      assert.equal([...outputs.keys()], [], 'every tool was called');
      await client.close();
    });

    test(`MCP, ${era} revision: a tool’s failure is a result, and an unknown tool an error`, async () => {
      const client = await connect(era);
      const refused = async (args: Record<string, unknown>) => client.callTool({ name: 'run_sql', arguments: args });
      for (const args of [
        { statement: 1 },
        { sql: 'selec 1' },
        { sql: 'delete from remembered' },
        { sql: 'select encrypted_password from auth.users' },
      ]) {
        assert.is((await refused(args)).isError, true, JSON.stringify(args));
      }
      const unknown = await client.callTool({ name: 'no_such_tool', arguments: {} }).catch((error) => error.code);
      assert.is(unknown, INVALID_PARAMS);
      const given_up = new AbortController();
      const sleeping = client
        .callTool({ name: 'run_sql', arguments: { sql: 'select pg_sleep(5)' } }, { signal: given_up.signal })
        .then(
          () => 'answered',
          () => 'given up',
        );
      given_up.abort();
      assert.is(await sleeping, 'given up');
      assert.not((await refused({ sql: 'select 1' })).isError);
      await client.close();
    });
  }

  test('MCP by plain JSON-RPC: each earlier revision is accepted, an unknown one gets the newest of them', async () => {
    const begin = async (protocolVersion: string) => {
      const clientInfo = { name: 'walk', version: '1' };
      const { status, headers, body } = await raw(
        message('initialize', { protocolVersion, capabilities: {}, clientInfo }),
      );
      assert.is(status, 200);
      assert.is(headers.get('mcp-session-id'), null, 'the server keeps no session');
      return body?.result?.protocolVersion;
    };
    for (const version of EARLIER) assert.is(await begin(version), version);
    assert.is(await begin('1999-01-01'), EARLIER[0]);
    assert.ok((await details()).protocol_versions.includes(CURRENT));
    for (const version of EARLIER) {
      assert.is((await raw(message('ping'), { 'mcp-protocol-version': version })).status, 200, version);
    }
    assert.is((await raw(message('ping'), { 'mcp-protocol-version': '1999-01-01' })).status, 400);
    const bare = await raw(message('tools/list'), { 'mcp-protocol-version': CURRENT });
    assert.equal([bare.status, bare.body?.error?.code], [400, INVALID_PARAMS]);
    assert.is((await raw(message('ping', undefined, 'named'))).body?.id, 'named');
    assert.is((await raw(message('ping'), { 'mcp-session-id': 'of another server' })).status, 200);
  });

  test('MCP by plain JSON-RPC: errors have the protocol’s codes, and notifications get no response', async () => {
    for (const method of ['no/such', 'resources/list', 'prompts/list', 'completion/complete']) {
      assert.is((await raw(message(method, {}))).body?.error?.code, METHOD_NOT_FOUND, method);
    }
    const unknown = await raw(message('tools/call', { name: 'no_such_tool', arguments: {} }));
    assert.is(unknown.body?.error?.code, INVALID_PARAMS);
    assert.is((await raw(message('tools/call', {}))).body?.error?.code, INVALID_PARAMS);
    for (const method of ['notifications/initialized', 'notifications/cancelled']) {
      const params = method === 'notifications/cancelled' ? { requestId: 1, reason: 'given up' } : {};
      const { status, body } = await raw({ jsonrpc: '2.0', method, params });
      assert.equal([status, body], [202, undefined], method);
    }
  });

  test('MCP over HTTP: a client is served when it accepts only JSON', async () => {
    const { status, body } = await raw({ jsonrpc: '2.0', id: 1, method: 'ping' }, { accept: 'application/json' });
    assert.equal([status, body], [200, { jsonrpc: '2.0', id: 1, result: {} }]);
  });

  const REFUSED: [what: string, status: number, body: unknown, headers?: Record<string, string>, method?: string][] = [
    ['invalid JSON', 400, '{'],
    ['a batch', 400, [{ jsonrpc: '2.0', id: 1, method: 'ping' }]],
    ['an answer', 400, { jsonrpc: '2.0', id: 1, result: {} }],
    ['no version of JSON-RPC', 400, { id: 1, method: 'ping' }],
    ['an id that is null', 400, { jsonrpc: '2.0', id: null, method: 'ping' }],
    ['another type of content', 415, '{}', { 'content-type': 'text/plain' }],
    ['a client that accepts only HTML', 406, { jsonrpc: '2.0', id: 1, method: 'ping' }, { accept: 'text/html' }],
    ['no key', 401, { jsonrpc: '2.0', id: 1, method: 'ping' }, { apikey: '' }],
    ['a page of another site', 403, { jsonrpc: '2.0', id: 1, method: 'ping' }, { origin: 'https://evil.example' }],
    ['a stream of events', 405, undefined, { accept: 'text/event-stream' }, 'GET'],
    ['the end of a session', 405, undefined, { 'mcp-session-id': 'none' }, 'DELETE'],
  ];
  test('MCP over HTTP: an invalid or unauthorised request is rejected with the matching status', async () => {
    for (const [what, status, body, headers, method] of REFUSED) {
      const answer = await raw(body, headers, method);
      assert.is(answer.status, status, `${what}: ${JSON.stringify(answer.body)}`);
      if (status === 405) assert.match(String(answer.headers.get('allow')), /POST/, what);
    }
  });

  test('MCP over HTTP, current revision: headers must match the body, and a listen request ends at once', async () => {
    const sent: RequestInit[] = [];
    const client = await connect('current', sent);
    await client.callTool({ name: 'get_project_info', arguments: {} });
    await client.close();
    const last = sent.at(-1);
    const { accept: _, ...headers } = Object.fromEntries(new Headers(last?.headers));
    const body = last?.body as string;
    assert.is((await raw(body, headers)).status, 200);
    for (const name of ['mcp-method', 'mcp-name', 'mcp-protocol-version']) {
      const { status, body: error } = await raw(body, { ...headers, [name]: 'another' });
      assert.equal([status, error?.error?.code], [400, HEADER_MISMATCH], name);
    }

    // There is nothing to notify, so the requested stream ends at once.
    const { params, ...rest } = JSON.parse(body);
    const listenParams = { _meta: params._meta, notifications: { toolsListChanged: true } };
    const { 'mcp-name': __, ...unnamed } = headers;
    const listening = await raw(
      { ...rest, method: 'subscriptions/listen', params: listenParams },
      { ...unnamed, 'mcp-method': 'subscriptions/listen', accept: 'application/json, text/event-stream' },
    );
    assert.is(listening.status, 200);
  });
}
