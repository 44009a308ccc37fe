import { createHmac, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { type ClientRequest, createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { PROJECT_SERVICES } from '@slipway/crds';
import { generateKeyPair, SignJWT, UnsecuredJWT } from 'jose';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { receiveBody } from '../http/request-body.js';
import type { BackendTenant } from '../projects/tenant.js';
import type { Service } from '../services/service.js';
import { signToken } from '../testing/project.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createManagement, type Management } from '../upstreams/management.js';
import { createGateway } from './server.js';

const PUBLIC_URL = 'http://localhost:4000';

const newTenant = async (ref: string, jwtSecret?: string) => tenantWithoutDatabase(ref, await signedKeys(jwtSecret));

/** Service that returns the gateway's decision. */
const witness: Service = {
  async handle({ tenant, caller, path, query, incoming, outgoing, tokenProblem }) {
    const body = (await receiveBody(incoming, LIMITS.bodyBytes)).toString();
    const problem = tokenProblem?.kind;
    outgoing.writeHead(path === '/forbidden' ? 403 : 200, { 'Content-Type': 'application/json' });
    outgoing.end(
      JSON.stringify({ ref: tenant.ref, role: caller.role, claims: caller.claims, path, query, body, problem }),
    );
  },
  forget: async () => undefined,
  close: async () => undefined,
};

/** Service that reads any body, and returns its size. */
const taker: Service = {
  ...witness,
  async handle({ path: asked, incoming, outgoing }) {
    let bytes = 0;
    for await (const chunk of incoming) bytes += (chunk as Buffer).length;
    if (asked === '/endless') {
      outgoing.writeHead(200);
      const more = () => {
        while (outgoing.write(Buffer.alloc(65_536)));
      };
      outgoing.on('drain', more);
      more();
      return;
    }
    outgoing.end(JSON.stringify({ bytes }));
  },
};

/** Service of another protocol: returns the caller, and then echoes what it receives. */
const speaker: Service = {
  ...witness,
  upgrade({ tenant, caller, path: asked, query, socket, head }) {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    socket.write(`${JSON.stringify({ ref: tenant.ref, role: caller.role, path: asked, query })}${head}`);
    socket.pipe(socket);
  },
};

const LIMITS = {
  bodyBytes: 1000,
  headersMilliseconds: 5_000,
  requestMilliseconds: 800,
  stillMilliseconds: 2_000,
  checkMilliseconds: 50,
};

const LINKED_CONTAINER = '198.18.3.5';
const tenants = new Map<string, BackendTenant>();
const logged: string[] = [];
let blog: BackendTenant;
let shop: BackendTenant;
let gateway: Server;
let management: Management;
let port: number;
let folder: string;
let complete = true;

test.before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-gateway-'));
  blog = await newTenant('blog-x1');
  shop = await newTenant('shop');
  for (const tenant of [blog, shop]) tenants.set(tenant.ref, tenant);
  management = createManagement(path.join(folder, 'api.sock'), PUBLIC_URL);
  const sink = new Writable({ write: (line, _, done) => done(void logged.push(String(line))) });
  gateway = createGateway({
    publicUrl: PUBLIC_URL,
    tenant: (ref) => tenants.get(ref),
    complete: () => complete,
    linkedTo: (address) => (address === LINKED_CONTAINER ? 'blog-x1' : undefined),
    services: { auth: witness, rest: witness, realtime: speaker, functions: witness, storage: taker },
    rateLimit: 0,
    management,
    log: pino({ level: 'debug' }, sink),
    limits: LIMITS,
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  port = (gateway.address() as AddressInfo).port;
});

test.after(async () => {
  gateway.closeAllConnections();
  gateway.close();
  management.close();
  await rm(folder, { recursive: true, force: true });
});

type Headers = Record<string, string>;
interface SentRequest {
  status: number;
  headers: Headers;
  body: Record<string, unknown>;
}

/** A raw request, because fetch can't set Host. */
function ask(target: string, headers: Headers = {}, method = 'GET', body?: string): Promise<SentRequest> {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ host: '127.0.0.1', port, path: target, method, headers, agent: false });
    outgoing.on('response', (answer) => resolve(answered(answer))).on('error', reject);
    outgoing.end(body);
  });
}

async function answered(answer: IncomingMessage): Promise<SentRequest> {
  let text = '';
  for await (const chunk of answer) text += chunk;
  return {
    status: answer.statusCode as number,
    headers: answer.headers as Headers,
    body: text ? JSON.parse(text) : {},
  };
}

const REST = '/p/blog-x1/rest/v1/todos';
const bearer = (token: string) => ({ apikey: blog.anonKey, authorization: `Bearer ${token}` });

test('a project is found by path and by host name, whatever the case of the host', async () => {
  for (const [target, headers] of [
    ['/p/blog-x1/rest/v1/todos?id=eq.1', {}],
    ['/rest/v1/todos?id=eq.1', { host: 'blog-x1.localhost:4000' }],
    ['/rest/v1/todos?id=eq.1', { host: 'Blog-X1.LOCALHOST' }],
  ] as const) {
    const { status, body } = await ask(target, { ...headers, apikey: blog.anonKey });
    assert.is(status, 200);
    assert.equal([body.ref, body.path, body.query], ['blog-x1', '/todos', 'id=eq.1']);
  }
});

test('a service gets the path as the client sent it, with at least a slash', async () => {
  const { body } = await ask('/p/blog-x1/rest/v1?select=%2e%2e', { apikey: blog.anonKey });
  assert.equal([body.path, body.query], ['/', 'select=%2e%2e']);
  const traversal = await ask('/p/blog-x1/rest/v1/../../shop/rest/v1/', { apikey: blog.anonKey });
  assert.is(traversal.body.ref, 'blog-x1');
});

for (const [what, target, host] of [
  ['an unknown ref', '/p/nobody/rest/v1/', undefined],
  ['no ref', '/p/', undefined],
  ['an unknown host', '/rest/v1/', 'nobody.localhost'],
  ['a property of all objects', '/p/constructor/rest/v1/', undefined],
  ['a host below a project', '/rest/v1/', 'x.blog-x1.localhost'],
] as const) {
  test(`a request for ${what} gets 404`, async () => {
    const { status, body } = await ask(target, { apikey: blog.anonKey, ...(host ? { host } : {}) });
    assert.is(status, 404);
    assert.match(body.message as string, /no project/);
  });
}

test('a request for an unknown project gets 503 until the initial list of projects is complete', async () => {
  complete = false;
  const { status, headers } = await ask('/p/nobody/rest/v1/');
  complete = true;
  assert.is(status, 503);
  assert.is(headers['retry-after'], '1');
});

test('a request for a service that the project does not have gets 404 with the setting that opens it', async () => {
  for (const service of ['storage', 'functions']) {
    const { status, body } = await ask(`/p/blog-x1/${service}/v1/x`, { apikey: blog.anonKey });
    assert.is(status, 404);
    assert.match(
      JSON.stringify(body),
      new RegExp(`${service} is not available here.*SLIPWAY_SERVICES_SHARED=${service}`),
    );
  }
  assert.is((await ask('/p/blog-x1/storage/v1/x', { apikey: blog.anonKey })).body.statusCode, '404');
});

test('the root of a project’s address returns 404 and names the services below it', async () => {
  for (const target of ['/p/blog-x1', '/p/blog-x1/', '/p/blog-x1?x=1']) {
    const { status, body } = await ask(target);
    assert.is(status, 404, target);
    assert.match(String(body.hint), /The project has .*\/rest\/v1/, target);
  }
});

test('a path without a service returns 404', async () => {
  for (const name of ['constructor', '__proto__', 'graphql', 'x']) {
    assert.is((await ask(`/p/blog-x1/${name}/v1/x`, { apikey: blog.anonKey })).status, 404, name);
  }
});

test('the API key may be in a header or a Bearer token', async () => {
  for (const headers of [{ apikey: blog.anonKey }, { authorization: `Bearer ${blog.anonKey}` }] as Headers[]) {
    const { status, body } = await ask(REST, headers);
    assert.is(status, 200);
    assert.is(body.role, 'anon');
  }
});

test('an API key in the query is ignored, and is not passed to the service', async () => {
  const target = `${REST}?select=id&apikey=${blog.anonKey}&limit=1`;
  assert.is((await ask(target)).status, 401);
  const { status, body } = await ask(target, { apikey: blog.anonKey });
  assert.equal([status, body.query], [200, 'select=id&limit=1']);
});

test('the Bearer token decides the caller, and its claims reach the service', async () => {
  const token = await signToken(
    { role: 'authenticated', sub: 'u1', user_metadata: { role: 'service_role' } },
    blog.jwtSecret,
  );
  for (let i = 0; i < 2; i++) {
    const { body } = await ask(REST, bearer(token));
    assert.is(body.role, 'authenticated');
    assert.is(JSON.parse(body.claims as string).sub, 'u1');
  }
});

test('a request without a key gets 401 with upstream’s message', async () => {
  const { status, body } = await ask(REST);
  assert.is(status, 401);
  assert.is(body.message, 'No API key found in request');
});

const b64 = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const withHeader = async (header: object, secret: string, claims: object = { role: 'service_role' }) =>
  new SignJWT({ ...claims }).setProtectedHeader({ alg: 'HS256', ...header }).sign(new TextEncoder().encode(secret));

const FORGERIES: { what: string; token: () => Promise<string> | string }[] = [
  { what: 'alg none', token: () => new UnsecuredJWT({ role: 'service_role' }).encode() },
  { what: 'alg NONE with a signature', token: () => `${b64({ alg: 'NONE' })}.${b64({ role: 'service_role' })}.AAAA` },
  {
    what: "another project's secret",
    token: () => signToken({ role: 'service_role', ref: 'blog-x1' }, shop.jwtSecret),
  },
  { what: "another project's service_role key", token: () => shop.serviceRoleKey },
  {
    what: 'the empty secret',
    token: () => {
      const signed = `${b64({ alg: 'HS256' })}.${b64({ role: 'service_role' })}`;
      return `${signed}.${createHmac('sha256', '').update(signed).digest('base64url')}`;
    },
  },
  { what: 'HS512 and the right secret', token: () => withHeader({ alg: 'HS512' }, blog.jwtSecret) },
  {
    what: 'RS256',
    token: async () => {
      const { privateKey } = await generateKeyPair('RS256');
      return new SignJWT({ role: 'service_role' }).setProtectedHeader({ alg: 'RS256' }).sign(privateKey);
    },
  },
  {
    what: 'a kid that is a path, signed with what the file holds',
    token: () => withHeader({ kid: '../../../../dev/null' }, '\0'),
  },
  {
    what: 'a key of its own in the header',
    token: () => withHeader({ jwk: { kty: 'oct', k: 'AAAA' } }, 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'),
  },
  {
    what: 'an unknown critical header',
    token: () => `${b64({ alg: 'HS256', crit: ['x'], x: 1 })}.${b64({ role: 'service_role' })}.AAAA`,
  },
  {
    what: "the platform's own secret for its users",
    token: () => signToken({ sub: '1', role: 'service_role' }, randomBytes(32).toString('hex')),
  },
  { what: 'an expiry long ago', token: () => signToken({ role: 'service_role', exp: 1_000_000 }, blog.jwtSecret) },
  {
    what: 'a time before which it is not good',
    token: () => signToken({ role: 'service_role', nbf: 4_000_000_000 }, blog.jwtSecret),
  },
  { what: 'role postgres', token: () => signToken({ role: 'postgres' }, blog.jwtSecret) },
  { what: 'role supabase_admin', token: () => signToken({ role: 'supabase_admin' }, blog.jwtSecret) },
  { what: 'the login role of the project', token: () => signToken({ role: 'auth_admin.blog-x1' }, blog.jwtSecret) },
  { what: 'a list of roles', token: () => signToken({ role: ['service_role'] }, blog.jwtSecret) },
  { what: 'a personal access token', token: () => 'pat_0123456789abcdef0123456789abcdef' },
  { what: 'nothing that is a token', token: () => 'x' },
];

for (const { what, token } of FORGERIES) {
  test(`a token of ${what} is rejected as key and as Bearer token by every service`, async () => {
    const forged = await token();
    const asKey = await ask(REST, { apikey: forged });
    assert.is(asKey.status, 401);
    assert.is(asKey.body.message, 'Invalid API key');
    for (const headers of [bearer(forged), { authorization: `Bearer ${forged}` }]) {
      const { status, body } = await ask(REST, headers);
      assert.ok([401, 403].includes(status), `${status}`);
      assert.is(body.role, undefined);
    }
    assert.is((await ask('/p/blog-x1/auth/v1/signup', { authorization: `Bearer ${forged}` })).status, 403);
    const overAuth = await ask('/p/blog-x1/auth/v1/signup', bearer(forged));
    assert.is(overAuth.body.role, 'anon');
    assert.ok(overAuth.body.problem);
  });
}

test('rest rejects tokens with PostgREST’s errors', async () => {
  const expired = await ask(REST, bearer(await signToken({ role: 'anon', exp: 1_000_000 }, blog.jwtSecret)));
  assert.is(expired.status, 401);
  assert.equal(expired.body, { code: 'PGRST303', details: null, hint: null, message: 'JWT expired' });
  assert.match(expired.headers['www-authenticate'] as string, /^Bearer error="invalid_token"/);
  const forged = await ask(REST, bearer(await signToken({ role: 'anon' }, shop.jwtSecret)));
  assert.is(forged.body.code, 'PGRST301');
  const role = await ask(REST, bearer(await signToken({ role: 'postgres' }, blog.jwtSecret)));
  assert.is(role.status, 403);
  assert.is(role.body.code, '42501');
});

test('a key of another project is rejected with a hint that names the addressed project', async () => {
  for (const target of [REST, '/p/blog-x1/auth/v1/user']) {
    const { body } = await ask(target, { apikey: shop.anonKey });
    assert.match(String(body.hint), /^This key is not for project blog-x1\. Use its own anon_key or service_role_key/);
  }
  const bearerOnly = await ask(REST, { authorization: `Bearer ${shop.anonKey}` });
  assert.match(String(bearerOnly.body.hint), /^This token is not for project blog-x1/);
  assert.match(String((await ask(REST, { apikey: 'x' })).body.hint), /^Double check/);
});

test('a cached token is evicted when it expires', async () => {
  const now = Math.floor(Date.now() / 1000);
  // The token has expired within the tolerance for clocks, so it is valid only for a few more seconds.
  const token = await signToken({ role: 'authenticated', exp: now - 24 }, blog.jwtSecret);
  assert.is((await ask(REST, bearer(token))).status, 200);
  while (Date.now() < (now + 7) * 1000) await ask(REST, bearer(blog.anonKey));
  assert.is((await ask(REST, bearer(token))).status, 401);
});

test('a cached token is evicted when the secret changes or the project is deleted', async () => {
  const before = await newTenant('moving');
  tenants.set('moving', before);
  const target = '/p/moving/rest/v1/x';
  assert.is((await ask(target, { apikey: before.anonKey })).status, 200);
  tenants.set('moving', await newTenant('moving'));
  assert.is((await ask(target, { apikey: before.anonKey })).status, 401);
  tenants.delete('moving');
  assert.is((await ask(target, { apikey: before.anonKey })).status, 404);
});

test('tokens of the next and the previous secret are accepted during a rotation', async () => {
  const rotated = {
    ...(await newTenant('rotated')),
    otherJwtSecrets: ['the secret that comes', 'the secret that was'],
  };
  tenants.set('rotated', rotated);
  const target = '/p/rotated/rest/v1/x';
  for (const secret of [rotated.jwtSecret, ...rotated.otherJwtSecrets]) {
    const apikey = await signToken({ role: 'service_role' }, secret);
    assert.is((await ask(target, { apikey })).body.role, 'service_role');
    const expired = await signToken({ role: 'anon', exp: 1_000_000 }, secret);
    const refused = await ask(target, { apikey, authorization: `Bearer ${expired}` });
    assert.is(refused.body.message, 'JWT expired');
  }
  const stranger = await signToken({ role: 'service_role' }, 'a secret of nobody here');
  assert.is((await ask(target, { apikey: stranger })).status, 401);
  const was = await signToken({ role: 'anon' }, 'the secret that was');
  assert.is((await ask(target, { apikey: was })).status, 200);
  tenants.set('rotated', { ...rotated, otherJwtSecrets: [] });
  assert.is((await ask(target, { apikey: was })).status, 401);
});

test('every service of a suspended project returns 503 with the way to resume it, with or without a key', async () => {
  const { ref, anonKey } = await openTenant('resting');
  tenants.set(ref, { ...(tenants.get(ref) as BackendTenant), suspended: true });
  for (const target of ['/rest/v1/x', '/auth/v1/health', '/functions/v1/x', '/realtime/v1/api/broadcast']) {
    const { status, headers, body } = await ask(`/p/${ref}${target}`, { apikey: anonKey });
    assert.equal([status, body.code], [503, 'project_suspended'], target);
    assert.match(headers['content-type'] as string, /^application\/problem\+json/);
    assert.match(body.detail as string, /kubectl patch project resting .*"suspend":false/);
    assert.match(body.message as string, /suspended/);
  }
  const stored = await ask(`/p/${ref}/storage/v1/bucket`);
  assert.equal([stored.status, stored.body.statusCode], [503, '503']);
  assert.match(stored.body.message as string, /suspended/);
  const received = await spoken(websocket(`/p/${ref}/realtime/v1/websocket?apikey=${anonKey}`), /never/);
  assert.match(received, /^HTTP\/1\.1 503 .*project_suspended/s);
});

test('probes are served only at paths of the platform, not of projects', async () => {
  assert.equal(await ask('/healthz').then(({ status, body }) => [status, body]), [200, { ok: true }]);
  assert.is((await ask('/readyz')).status, 200);
  complete = false;
  const [live, starting] = [await ask('/healthz'), await ask('/readyz')];
  complete = true;
  assert.equal([live.status, starting.status], [200, 503]);
  for (const target of ['/healthz', '/readyz']) {
    assert.is((await ask(target, { host: 'blog-x1.localhost' })).status, 404);
    assert.is((await ask(`/p/blog-x1${target}`)).status, 404);
  }
});

test("a browser's preflight succeeds for any origin without a key", async () => {
  const { status, headers } = await ask(
    REST,
    {
      origin: 'https://app.example',
      'access-control-request-method': 'PATCH',
      'access-control-request-headers': 'apikey,content-profile,x-mine',
    },
    'OPTIONS',
  );
  assert.is(status, 200);
  assert.is(headers['access-control-allow-origin'], '*');
  assert.is(headers['access-control-allow-headers'], 'apikey,content-profile,x-mine');
  assert.match(headers['access-control-allow-methods'] as string, /PATCH/);
});

test('responses and errors can be read by pages of any origin', async () => {
  for (const key of [blog.anonKey, 'wrong']) {
    const { headers } = await ask(REST, { origin: 'https://app.example', apikey: key });
    assert.is(headers['access-control-allow-origin'], '*');
    assert.match(headers['access-control-expose-headers'] as string, /Content-Range/);
  }
});

test('a body that is too large is rejected, with or without a Content-Length', async () => {
  const headers = { apikey: blog.anonKey };
  const announced = await ask(REST, { ...headers, 'content-length': '1001' }, 'POST', 'x'.repeat(1001));
  assert.is(announced.status, 413);
  const chunked = await ask(REST, { ...headers, 'transfer-encoding': 'chunked' }, 'POST', 'x'.repeat(1001));
  assert.is(chunked.status, 413);
  const allowed = await ask(REST, headers, 'POST', 'x'.repeat(1000));
  assert.is((allowed.body.body as string).length, 1000);
});

for (const [what, text] of [
  ['headers', `GET ${REST} HTTP/1.1\r\nHost: x\r\n`],
  ['a body', `POST ${REST} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx`],
] as const) {
  test(`a client that never ends ${what} is disconnected`, async () => {
    const socket = connect(port, '127.0.0.1');
    socket.write(text);
    const chunks: string[] = [];
    socket.on('data', (chunk) => chunks.push(String(chunk)));
    await new Promise((resolve) => socket.on('close', resolve));
    assert.match(chunks.join(''), /^HTTP\/1\.1 (408|401)/);
  });
}

async function openTenant(ref: string): Promise<BackendTenant> {
  const tenant = { ...(await newTenant(ref)), services: new Set(PROJECT_SERVICES) };
  tenants.set(ref, tenant);
  return tenant;
}

/** Sends bytes on a raw connection. Returns the response up to its end, or until `enough` matches. */
function spoken(text: string, enough: RegExp): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
      if (enough.test(received)) socket.destroy();
    });
    socket.on('error', () => undefined).on('close', () => resolve(received));
  });
}

const websocket = (target: string, more = '') =>
  `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${more}\r\n`;

test('an upgrade request is authenticated like any other, and its socket is passed to the service', async () => {
  const target = `/p/blog-x1/realtime/v1/websocket?vsn=1.0.0&apikey=${blog.anonKey}`;
  const received = await spoken(`${websocket(target)}hello`, /hello/);
  assert.match(received, /^HTTP\/1\.1 101 /);
  assert.match(received, /"ref":"blog-x1","role":"anon","path":"\/websocket","query":"vsn=1.0.0"/);
});

for (const [what, target, status] of [
  ['no key', '/p/blog-x1/realtime/v1/websocket', 401],
  ['a wrong key', '/p/blog-x1/realtime/v1/websocket?apikey=x', 401],
  ['an unknown project', '/p/nobody/realtime/v1/websocket', 404],
  ['a service that speaks HTTP alone', '/p/blog-x1/rest/v1/x', 400],
  ['a service that the project has not', '/p/blog-x1/functions/v1/x', 404],
  ['the platform itself', '/projects', 400],
] as const) {
  test(`a request to change the protocol of ${what} gets ${status}, and the connection is closed`, async () => {
    const key = what === 'a service that speaks HTTP alone' ? `apikey: ${blog.anonKey}\r\n` : '';
    const received = await spoken(websocket(target, key), /never/);
    assert.match(received, new RegExp(`^HTTP/1\\.1 ${status} `));
    assert.match(received, /\r\n\r\n\{.*\}$/);
    if (status === 400) assert.match(received, /Realtime is at <project_url>\/realtime\/v1\/websocket/);
  });
}

test('a pipelined request to change the protocol closes only its own connection', async () => {
  const received = await spoken(`GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n${websocket('/x')}`, /never/);
  assert.not.match(received, /101/);
  assert.is((await ask('/healthz')).status, 200);
});

test('a container of an app reaches only the project that its app is linked to', async () => {
  const upgrade = { connection: 'Upgrade', upgrade: 'websocket' };
  const statusFor = async (container: string, target: string, headers: Headers = {}) => {
    // The network of containers is on one machine with their engine alone: the address is set here.
    gateway.prependOnceListener('connection', (socket) => {
      Object.defineProperty(socket, 'remoteAddress', { value: container });
    });
    return (await ask(target, { apikey: blog.anonKey, ...headers })).status;
  };
  for (const container of [LINKED_CONTAINER, `::ffff:${LINKED_CONTAINER}`]) {
    assert.is(await statusFor(container, REST), 200, container);
    assert.is(await statusFor(container, '/rest/v1/todos', { host: 'blog-x1.localhost' }), 200, container);
    for (const target of ['/p/shop/rest/v1/todos', '/projects', '/healthz', '/p/nobody/rest/v1/']) {
      assert.is(await statusFor(container, target), 403, `${target} from ${container}`);
    }
    assert.is(await statusFor(container, '/p/shop/realtime/v1/websocket', upgrade), 403, container);
  }
  for (const container of ['198.18.3.7', '198.19.255.255', '::ffff:198.18.3.7']) {
    assert.is(await statusFor(container, REST), 403, container);
    assert.is(await statusFor(container, '/p/blog-x1/realtime/v1/websocket', upgrade), 403, container);
  }
  for (const other of ['198.20.3.5', '127.0.0.1']) assert.is(await statusFor(other, REST), 200, other);
});

test('an open route is served as anon without a valid key, and gets the reason why the key was rejected', async () => {
  const { ref, serviceRoleKey } = await openTenant('open');
  const nobody = await ask(`/p/${ref}/functions/v1/hello`);
  assert.is(nobody.body.role, 'anon');
  const forged = await ask(`/p/${ref}/functions/v1/hello`, { authorization: `Bearer ${shop.serviceRoleKey}` });
  assert.is(forged.body.role, 'anon');
  assert.is((await ask(`/p/${ref}/functions/v1/hello`, { apikey: serviceRoleKey })).body.role, 'service_role');
});

test('storage serves only public and signed routes without a key', async () => {
  const { ref } = await openTenant('files');
  for (const [method, route, status] of [
    ['GET', '/object/public/b/a.txt', 200],
    ['HEAD', '/object/public/b/a.txt', 200],
    ['GET', '/object/sign/b/a.txt?token=x', 200],
    ['GET', '/render/image/public/b/a.png', 200],
    ['PUT', '/object/upload/sign/b/a.txt?token=x', 200],
    ['GET', '/status', 200],
    ['POST', '/object/sign/b/a.txt', 401],
    ['POST', '/object/public/b/a.txt', 401],
    ['GET', '/object/b/a.txt', 401],
    ['GET', '/object/authenticated/b/a.txt', 401],
    ['GET', '/render/image/authenticated/b/a.png', 401],
    ['GET', '/bucket', 401],
    ['GET', '/statusx', 401],
    ['POST', '/upload/resumable', 401],
  ] as const) {
    const refused = await new Promise<number>((resolve) => {
      httpRequest({ host: '127.0.0.1', port, path: `/p/${ref}/storage/v1${route}`, method, agent: false })
        .on('response', (answer) => resolve(answer.resume().statusCode as number))
        .end();
    });
    assert.is(refused, status, `${method} ${route}`);
  }
});

test('a streaming service accepts a body of any size as long as its bytes keep arriving', async () => {
  const { ref, anonKey } = await openTenant('streams');
  const outgoing = httpRequest({
    host: '127.0.0.1',
    port,
    path: `/p/${ref}/storage/v1/object/b/x`,
    method: 'POST',
    headers: { apikey: anonKey, 'content-length': '20' },
    agent: false,
  });
  const answer = new Promise<IncomingMessage>((resolve, reject) =>
    outgoing.on('response', resolve).on('error', reject),
  );
  const began = performance.now();
  let sent = 0;
  const tick = setInterval(() => {
    outgoing.write('x');
    if (++sent === 20) {
      clearInterval(tick);
      outgoing.end();
    }
  }, 50);
  assert.equal((await answered(await answer)).body, { bytes: 20 });
  assert.ok(performance.now() - began > LIMITS.requestMilliseconds);
  const large = await ask(
    `/p/${ref}/storage/v1/object/b/x`,
    { apikey: anonKey, 'content-length': '5000' },
    'POST',
    'x'.repeat(5000),
  );
  assert.equal(large.body, { bytes: 5000 });
});

test('a client that stalls during an upload or a download is disconnected', async () => {
  const { ref, anonKey } = await openTenant('still');
  const head = `/p/${ref}/storage/v1/object/b/x HTTP/1.1\r\nHost: x\r\napikey: ${anonKey}\r\n`;
  assert.match(await spoken(`POST ${head}Content-Length: 1000\r\n\r\nx`, /never/), /^(HTTP\/1\.1 408 .*)?$/s);
  const cut = new Promise((resolve) => gateway.once('connection', (socket) => socket.once('close', resolve)));
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  socket.write(`GET /p/${ref}/storage/v1/endless HTTP/1.1\r\nHost: x\r\napikey: ${anonKey}\r\n\r\n`);
  await cut;
  socket.destroy();
});

test('each response has a unique id, which the caller cannot choose', async () => {
  const ids = new Set<string>();
  for (let i = 0; i < 3; i++) {
    ids.add((await ask(REST, { apikey: blog.anonKey, 'x-request-id': 'mine' })).headers['x-request-id'] as string);
  }
  assert.is(ids.size, 3);
  assert.not.ok(ids.has('mine'));
});

test('the log lists requests without their keys and queries', async () => {
  await ask(`${REST}?apikey=${blog.anonKey}&email=eq.al@example.com`, { authorization: 'Bearer canary' });
  const text = logged.join('');
  assert.match(text, /\/p\/blog-x1\/rest\/v1\/todos/);
  for (const secret of [blog.anonKey, 'canary', 'al@example.com', blog.jwtSecret]) assert.not.ok(text.includes(secret));
});

/** Starts a separate gateway, whose log no other test writes to. */
async function withLoggedGateway(work: (rest: string, lines: Record<string, unknown>[]) => Promise<void>) {
  const lines: Record<string, unknown>[] = [];
  const sink = new Writable({ write: (line, _, done) => done(void lines.push(JSON.parse(String(line)))) });
  const server = createGateway({
    publicUrl: PUBLIC_URL,
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services: { rest: witness, realtime: speaker },
    management,
    log: pino({ level: 'info' }, sink),
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}${REST}`, lines);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

test('a forged token is logged in one line with address, path and reason, without token or query', async () => {
  await withLoggedGateway(async (rest, lines) => {
    assert.is((await fetch(rest, { headers: bearer(blog.anonKey) })).status, 200);
    assert.equal(lines, []);
    const forged = await signToken({ role: 'service_role' }, 'another secret of enough characters');
    const { status, headers } = await fetch(`${rest}?email=al@example.com`, { headers: bearer(forged) });
    assert.is(status, 401);
    assert.is(lines.length, 1);
    const { ref, service, method, path, reason, problem, requestId, address } = lines[0] ?? {};
    assert.equal([ref, service, method, path], ['blog-x1', 'rest', 'GET', '/todos']);
    assert.equal([reason, problem, address], ['invalid-token', 'signature', '127.0.0.1']);
    assert.is(requestId, headers.get('x-request-id'));
    for (const secret of [...forged.split('.'), blog.anonKey, 'al@example.com']) {
      assert.not.ok(JSON.stringify(lines).includes(secret));
    }
  });
});

test('a rejection by a service is logged in one line', async () => {
  await withLoggedGateway(async (rest, lines) => {
    const url = rest.replace('/todos', '/forbidden');
    assert.is((await fetch(`${url}?email=al@example.com`, { headers: bearer(blog.anonKey) })).status, 403);
    const { reason, status, path, address } = lines[0] ?? {};
    assert.equal([lines.length, reason, status, path], [1, 'by-the-service', 403, '/forbidden']);
    assert.is(address, '127.0.0.1');
    assert.not.ok(JSON.stringify(lines).includes('al@example.com'));
  });
});

async function withApi(work: (seen: IncomingMessage[]) => Promise<void>): Promise<void> {
  const seen: IncomingMessage[] = [];
  const api = createServer(async (incoming, outgoing) => {
    seen.push(incoming);
    let text = '';
    for await (const chunk of incoming) text += chunk;
    outgoing.writeHead(201, {
      'content-type': 'application/json',
      connection: 'x-hop',
      'x-hop': '1',
      'set-cookie': ['a=1', 'b=2'],
    });
    outgoing.end(JSON.stringify({ url: incoming.url, text }));
  });
  const socket = path.join(folder, 'api.sock');
  await rm(socket, { force: true });
  await new Promise<void>((resolve) => api.listen(socket, resolve));
  try {
    await work(seen);
  } finally {
    api.closeAllConnections();
    await new Promise((resolve) => api.close(resolve));
  }
}

test('all other requests are forwarded to the API without hop-by-hop headers', async () => {
  await withApi(async (seen) => {
    const { status, headers, body } = await ask(
      '/projects?page=2',
      {
        authorization: 'Bearer pat_x',
        connection: 'keep-alive, x-mine',
        'x-mine': '1',
        te: 'trailers',
        'content-length': '5',
      },
      'POST',
      'hello',
    );
    assert.is(status, 201);
    assert.equal(body, { url: '/projects?page=2', text: 'hello' });
    assert.is(headers['x-hop'], undefined);
    assert.equal(headers['set-cookie'] as unknown, ['a=1', 'b=2']);
    assert.is(seen[0]?.headers.authorization, 'Bearer pat_x');
    assert.is(seen[0]?.headers['x-mine'], undefined);
    assert.is(seen[0]?.headers.te, undefined);
  });
});

test('the client’s address is set by the gateway, never by the client', async () => {
  await withApi(async (seen) => {
    await ask('/auth/login', {
      'x-forwarded-for': '6.6.6.6',
      'x-forwarded-host': 'evil.example',
      'x-forwarded-proto': 'https',
      'x-forwarded-port': '666',
      'x-real-ip': '6.6.6.6',
      forwarded: 'for=6.6.6.6;host=evil.example',
    });
    const headers = seen[0]?.headers ?? {};
    assert.is(headers['x-forwarded-for'], '127.0.0.1');
    assert.is(headers['x-forwarded-host'], 'localhost:4000');
    assert.is(headers['x-forwarded-proto'], 'http');
    assert.not.match(JSON.stringify(headers), /6\.6\.6\.6|evil|666/);
  });
});

test('a request gets a problem document while the API is unavailable, and succeeds as soon as it returns', async () => {
  const { status, headers, body } = await ask('/projects');
  assert.is(status, 502);
  assert.match(headers['content-type'] as string, /^application\/problem\+json/);
  assert.is(body.status, 502);
  await withApi(async () => assert.is((await ask('/projects')).status, 201));
  assert.is((await ask('/projects')).status, 502);
  await withApi(async () => assert.is((await ask('/projects')).status, 201));
});

test('a disconnected caller cancels the request at the API', async () => {
  const api = createServer();
  const socket = path.join(folder, 'api.sock');
  await rm(socket, { force: true });
  await new Promise<void>((resolve) => api.listen(socket, resolve));
  let caller: ClientRequest | undefined;
  const ended = new Promise<void>((resolve) => {
    api.on('request', (incoming) => {
      incoming.on('close', resolve);
      caller?.destroy();
    });
  });
  caller = httpRequest({ host: '127.0.0.1', port, path: '/projects', agent: false });
  caller.on('error', () => undefined).end();
  await ended;
  api.closeAllConnections();
  await new Promise((resolve) => api.close(resolve));
});

test.run();
