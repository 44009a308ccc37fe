import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestListener,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../gateway/server.js';
import type { Patience } from '../http/slow-clients.js';
import type { BackendTenant } from '../projects/tenant.js';
import type { Service, Services } from '../services/service.js';
import { signToken } from '../testing/project.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createDeployedServices } from './deployed.js';
import { createManagement } from './management.js';
import type { ServiceAddress, UpstreamLimits } from './upstream-client.js';

const DOMAIN = 'slipway.test:18080';

const newTenant = async (ref: string, upstream: BackendTenant['upstream'] = 'pods') =>
  tenantWithoutDatabase(ref, { ...(await signedKeys()), upstream, url: `http://${ref}.${DOMAIN}` });

const inProcess: Service = {
  handle: async ({ outgoing }) => void outgoing.end(JSON.stringify({ served: 'in process' })),
  forget: async () => undefined,
  close: async () => undefined,
};

const listening = async (server: Server | ReturnType<typeof createTcpServer>) => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
};

interface Pod {
  port: number;
  connections: Set<Socket>;
  /** Number of connections so far. */
  opened: number;
  close(): Promise<void>;
}

async function startPod(listener: RequestListener, port = 0): Promise<Pod> {
  const server = createServer(listener);
  const pod: Pod = {
    port: 0,
    connections: new Set(),
    opened: 0,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  server.on('connection', (socket) => {
    pod.opened++;
    pod.connections.add(socket);
    socket.once('close', () => pod.connections.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  pod.port = (server.address() as AddressInfo).port;
  return pod;
}

/** Server that returns the request that it got. */
const echo: RequestListener = (incoming, outgoing) => {
  const chunks: Buffer[] = [];
  incoming.on('data', (chunk) => chunks.push(chunk));
  incoming.on('end', () => {
    const { method, url, headers } = incoming;
    outgoing.setHeader('content-type', 'application/json');
    outgoing.end(JSON.stringify({ method, url, headers, body: Buffer.concat(chunks).toString() }));
  });
};

const tenants = new Map<string, BackendTenant>();
const places = new Map<string, ServiceAddress>();
const started: { close(): unknown }[] = [];
test.after(async () => {
  for (const { close } of started.reverse()) await close();
});

interface Fixture {
  ref: string;
  tenant: BackendTenant;
  ask(target: string, options?: AskOptions): Promise<Answer>;
  /** Address at which the gateway connects to the pod. */
  place(port: number): void;
  port: number;
}

interface AskOptions {
  method?: string;
  headers?: Record<string, string>;
  body?: string | undefined;
}

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  // biome-ignore lint: a test says itself what it expects.
  json: any;
}

let count = 0;
/** Project whose services are at `listener`, behind its own gateway. */
async function fixture(
  listener: RequestListener | undefined,
  limits: Partial<UpstreamLimits> = {},
  services: Services = { auth: inProcess, rest: inProcess },
  patience: Partial<Patience> = {},
): Promise<Fixture & { pod: Pod }> {
  const tenant = await newTenant(`shop-${++count}`);
  tenants.set(tenant.ref, tenant);
  const pod = await startPod(listener ?? echo);
  const place = (port: number) => places.set(tenant.ref, { host: '127.0.0.1', port });
  place(pod.port);
  const deployed = createDeployedServices({ serviceAddress: (ref) => places.get(ref) as ServiceAddress, limits });
  const publicUrl = `http://${DOMAIN}`;
  const gateway = createGateway({
    publicUrl,
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services,
    deployed,
    behindIngress: true,
    rateLimit: 0,
    management: createManagement(undefined, publicUrl),
    log: pino({ level: 'silent' }),
    limits: { bodyBytes: limits.bodyBytes ?? 10_000_000, ...patience },
  });
  const port = await listening(gateway);
  const close = async () => {
    await deployed.auth.close();
    gateway.closeAllConnections();
    await new Promise((resolve) => gateway.close(resolve));
    await pod.close();
  };
  started.push({ close });
  const ask: Fixture['ask'] = (target, options) => askAt(port, `${tenant.ref}.${DOMAIN}`, target, options);
  return { ref: tenant.ref, tenant, ask, place, port, pod };
}

function askAt(port: number, host: string, target: string, options: AskOptions = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { method = 'GET', headers = {}, body } = options;
    const outgoing = request({
      host: '127.0.0.1',
      port,
      path: target,
      method,
      headers: { host, ...headers },
      agent: false,
    });
    outgoing.on('response', (answer) => resolve(read(answer))).on('error', reject);
    outgoing.end(body);
  });
}

async function read(answer: IncomingMessage): Promise<Answer> {
  let text = '';
  for await (const chunk of answer) text += chunk;
  const isJson = /json/.test(answer.headers['content-type'] ?? '');
  return { status: answer.statusCode as number, headers: answer.headers, text, json: isJson ? JSON.parse(text) : {} };
}

test('a request to rest reaches the pod without the key, and with a token of the caller', async () => {
  const { tenant, ask } = await fixture(echo);
  const inHeader = await ask('/rest/v1/todos?id=eq.1', { headers: { apikey: tenant.anonKey } });
  assert.is(inHeader.status, 200);
  assert.equal([inHeader.json.method, inHeader.json.url], ['GET', '/todos?id=eq.1']);
  assert.is(inHeader.json.headers.authorization, `Bearer ${tenant.anonKey}`);
  assert.is(inHeader.json.headers.apikey, undefined);
  const user = await signToken({ role: 'authenticated', sub: 'u1' }, tenant.jwtSecret);
  const asUser = await ask('/rest/v1/todos', { headers: { apikey: tenant.anonKey, authorization: `Bearer ${user}` } });
  assert.is(asUser.json.headers.authorization, `Bearer ${user}`);
  const basic = await ask('/rest/v1/todos', { headers: { apikey: tenant.anonKey, authorization: 'Basic eDp5' } });
  assert.is(basic.json.headers.authorization, `Bearer ${tenant.anonKey}`);
});

test('auth gets only the token that the caller sent, and its open routes need no key', async () => {
  const { tenant, ask } = await fixture(echo);
  const { json } = await ask('/auth/v1/admin/users', { headers: { apikey: tenant.serviceRoleKey } });
  assert.equal([json.url, json.headers.authorization, json.headers.apikey], ['/admin/users', undefined, undefined]);
  const worn = await signToken({ role: 'authenticated', exp: 1_000_000 }, tenant.jwtSecret);
  const headers = { apikey: tenant.anonKey, authorization: `Bearer ${worn}` };
  assert.is((await ask('/auth/v1/user', { headers })).json.headers.authorization, `Bearer ${worn}`);
  const open = await ask('/auth/v1/verify?token=x&type=signup');
  assert.equal([open.status, open.json.url], [200, '/verify?token=x&type=signup']);
});

test('a request without a valid key never reaches the pod', async () => {
  let reached = 0;
  const { tenant, ask } = await fixture((_, outgoing) => {
    reached++;
    outgoing.end();
  });
  const stranger = await newTenant('stranger');
  for (const [target, headers, status] of [
    ['/rest/v1/todos', {}, 401],
    ['/rest/v1/todos', { apikey: stranger.serviceRoleKey }, 401],
    ['/rest/v1/todos', { apikey: tenant.anonKey, authorization: `Bearer ${stranger.serviceRoleKey}` }, 401],
    ['/auth/v1/admin/users', { authorization: `Bearer ${stranger.serviceRoleKey}` }, 403],
  ] as const) {
    assert.is((await ask(target, { headers })).status, status, target);
  }
  assert.is(reached, 0);
});

test('the gateway sets the headers with the project’s URL and the client’s address', async () => {
  const { ref, tenant, ask } = await fixture(echo);
  const { json } = await ask('/rest/v1/todos', {
    headers: {
      apikey: tenant.anonKey,
      'x-forwarded-for': '6.6.6.6, 192.0.2.7',
      'x-forwarded-host': 'evil.example',
      'x-forwarded-proto': 'gopher',
      'x-forwarded-port': '666',
      'x-forwarded-prefix': '/evil',
      'x-real-ip': '6.6.6.6',
      forwarded: 'for=6.6.6.6',
      connection: 'keep-alive, x-mine',
      'x-mine': '1',
      te: 'trailers',
    },
  });
  const { headers } = json;
  assert.is(headers['x-forwarded-for'], '192.0.2.7');
  assert.is(headers['x-forwarded-host'], `${ref}.${DOMAIN}`);
  assert.equal([headers['x-forwarded-proto'], headers['x-forwarded-port']], ['http', '18080']);
  assert.equal([headers['x-mine'], headers.te], [undefined, undefined]);
  assert.not.match(JSON.stringify(headers), /6\.6\.6\.6|evil|gopher|"666"/);
});

test('the pod’s CORS headers are not sent twice', async () => {
  const { tenant, ask } = await fixture((_, outgoing) => {
    outgoing.setHeader('access-control-allow-origin', 'https://other.example');
    outgoing.setHeader('access-control-allow-credentials', 'true');
    outgoing.setHeader('x-request-id', 'theirs');
    outgoing.setHeader('content-range', '0-1/2');
    outgoing.setHeader('set-cookie', ['a=1', 'b=2']);
    outgoing.writeHead(206).end('[]');
  });
  const { status, headers } = await ask('/rest/v1/x', {
    headers: { apikey: tenant.anonKey, origin: 'https://a.example' },
  });
  assert.is(status, 206);
  assert.is(headers['access-control-allow-origin'], '*');
  assert.is(headers['access-control-allow-credentials'], undefined);
  assert.is.not(headers['x-request-id'], 'theirs');
  assert.equal([headers['content-range'], headers['set-cookie']], ['0-1/2', ['a=1', 'b=2']]);
});

test('bodies are forwarded in both directions, with or without a length', async () => {
  const { tenant, ask } = await fixture(echo);
  const headers = { apikey: tenant.anonKey };
  const long = 'x'.repeat(300_000);
  const chunked = await ask('/rest/v1/x', {
    method: 'POST',
    headers: { ...headers, 'transfer-encoding': 'chunked' },
    body: long,
  });
  assert.equal([chunked.status, chunked.json.body.length], [200, long.length]);
  const announced = await ask('/rest/v1/x', {
    method: 'PATCH',
    headers: { ...headers, 'content-length': '300000' },
    body: long,
  });
  assert.equal([announced.json.method, announced.json.body.length], ['PATCH', long.length]);
});

test('a response streams: its beginning arrives before its end', async () => {
  let finish: (() => void) | undefined;
  const { tenant, port, ref } = await fixture((_, outgoing) => {
    outgoing.writeHead(200);
    outgoing.flushHeaders();
    finish = () => {
      outgoing.write('first');
      finish = () => outgoing.end('last');
    };
  });
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const headers = { host: `${ref}.${DOMAIN}`, apikey: tenant.anonKey };
    request({ host: '127.0.0.1', port, path: '/rest/v1/x', headers, agent: false })
      .on('response', resolve)
      .on('error', reject)
      .end();
  });
  finish?.();
  const chunks = answer[Symbol.asyncIterator]();
  assert.is(String((await chunks.next()).value), 'first');
  finish?.();
  assert.is(String((await chunks.next()).value), 'last');
});

test('a body that is too large is rejected, with or without a length, and the next request is served', async () => {
  const { tenant, ask } = await fixture(echo, { bodyBytes: 1000 });
  const headers = { apikey: tenant.anonKey };
  const body = 'x'.repeat(100_000);
  for (const framing of [{ 'content-length': String(body.length) }, { 'transfer-encoding': 'chunked' }]) {
    const { status, text } = await ask('/rest/v1/x', { method: 'POST', headers: { ...headers, ...framing }, body });
    assert.is(status, 413, text);
  }
  assert.is((await ask('/rest/v1/x', { headers })).status, 200);
});

test('a request gets 502 with Retry-After while pods are unavailable, and succeeds once they are back', async () => {
  const { tenant, ask, pod } = await fixture(echo);
  const headers = { apikey: tenant.anonKey };
  assert.is((await ask('/rest/v1/x', { headers })).status, 200);
  await pod.close();
  for (const service of ['rest', 'auth']) {
    const down = await ask(`/${service}/v1/x`, { headers });
    assert.equal([down.status, down.headers['retry-after']], [502, '1']);
    assert.match(down.headers['content-type'] as string, /^application\/problem\+json/);
    assert.match(down.json.detail, new RegExp(`^The ${service} service does not answer`));
  }
  const back = await startPod(echo, pod.port);
  started.push(back);
  assert.is((await ask('/rest/v1/x', { headers })).status, 200);
});

test('an unknown host name in the cluster causes an error of the gateway', async () => {
  const { tenant, ask, ref } = await fixture(echo);
  places.set(ref, { host: 'auth.p-nobody.svc.invalid', port: 9999 });
  // 504 if the DNS server takes longer than the connect timeout.
  const { status } = await ask('/rest/v1/x', { headers: { apikey: tenant.anonKey } });
  assert.ok([502, 504].includes(status), String(status));
});

test('a pod that never responds causes a 504, and its connection is not used again', async () => {
  let mute = true;
  const { tenant, ask } = await fixture((incoming, outgoing) => mute || echo(incoming, outgoing), {
    stillMilliseconds: 1_000,
  });
  const headers = { apikey: tenant.anonKey };
  const late = await ask('/rest/v1/x', { headers });
  assert.equal([late.status, late.json.title], [504, 'Gateway Timeout']);
  mute = false;
  assert.is((await ask('/rest/v1/x', { headers })).status, 200);
});

test('a response that the pod cuts off is also cut off for the caller', async () => {
  const { tenant, ask } = await fixture((_, outgoing) => {
    outgoing.writeHead(200, { 'content-length': '100' });
    outgoing.write('half', () => outgoing.destroy());
  });
  const cut = await ask('/rest/v1/x', { headers: { apikey: tenant.anonKey } }).then(
    () => 'whole',
    (error: NodeJS.ErrnoException) => error.code ?? error.message,
  );
  assert.is(cut, 'ECONNRESET');
});

test('a disconnected caller cancels the request at the pod', async () => {
  const ended = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const { tenant, port, ref } = await fixture((incoming: IncomingMessage, outgoing: ServerResponse) => {
    incoming.resume();
    outgoing.once('close', () => ended.resolve());
    begun.resolve();
  });
  const headers = { host: `${ref}.${DOMAIN}`, apikey: tenant.anonKey };
  const caller = request({ host: '127.0.0.1', port, path: '/rest/v1/x', headers, agent: false });
  caller.on('error', () => undefined).end();
  await begun.promise;
  caller.destroy();
  await ended.promise;
});

test('connections to a pod are reused', async () => {
  const { tenant, ask, pod } = await fixture(echo);
  for (let i = 0; i < 20; i++) await ask('/rest/v1/x', { headers: { apikey: tenant.anonKey } });
  assert.is(pod.opened, 1);
});

test('a pod that closes idle connections causes no failed request', async () => {
  const { tenant, ask, pod } = await fixture(echo);
  for (let i = 0; i < 50; i++) {
    assert.is((await ask('/rest/v1/x', { headers: { apikey: tenant.anonKey } })).status, 200);
    for (const socket of pod.connections) socket.destroy();
  }
});

test('idle connections of all projects have a limit', async () => {
  const first = await fixture(echo, { idleConnections: 3 });
  const pods = [first.pod];
  const { jwtSecret, anonKey, ...rest } = first.tenant;
  for (let i = 0; i < 7; i++) {
    const pod = await startPod(echo);
    started.push(pod);
    pods.push(pod);
    const ref = `${first.ref}-${i}`;
    tenants.set(ref, { ...rest, ref, jwtSecret, anonKey });
    places.set(ref, { host: '127.0.0.1', port: pod.port });
    const answer = await askAt(first.port, `${ref}.${DOMAIN}`, '/rest/v1/x', { headers: { apikey: anonKey } });
    assert.is(answer.status, 200);
  }
  const open = () => pods.reduce((sum, { connections }) => sum + connections.size, 0);
  while (open() > 3) await new Promise((resolve) => setImmediate(resolve));
  assert.is(pods.at(-1)?.connections.size, 1);
});

test('requests beyond the limit of a service get 503 with Retry-After, and others are served', async () => {
  const waiting: (() => void)[] = [];
  const { tenant, ask } = await fixture((_, outgoing) => waiting.push(() => outgoing.end('{}')), {
    atOncePerService: 2,
  });
  const headers = { apikey: tenant.anonKey };
  const open = [ask('/rest/v1/x', { headers }), ask('/rest/v1/x', { headers })];
  while (waiting.length < 2) await new Promise((resolve) => setImmediate(resolve));
  const refused = await ask('/rest/v1/x', { headers });
  assert.equal([refused.status, refused.headers['retry-after']], [503, '1']);
  for (const answer of waiting) answer();
  for (const { status } of await Promise.all(open)) assert.is(status, 200);
  const next = ask('/rest/v1/x', { headers });
  while (waiting.length < 3) await new Promise((resolve) => setImmediate(resolve));
  waiting[2]?.();
  assert.is((await next).status, 200);
});

test('a project without its own pods is served in the gateway’s process, and moves to its pods at once', async () => {
  const { tenant, ask, ref } = await fixture(echo);
  const headers = { apikey: tenant.anonKey };
  tenants.set(ref, { ...tenant, upstream: 'pooled' });
  assert.is((await ask('/rest/v1/x', { headers })).text, '{"served":"in process"}');
  tenants.set(ref, tenant);
  assert.is((await ask('/rest/v1/x', { headers })).json.url, '/x');
});

test('a server that does not speak HTTP causes a 502', async () => {
  const server = createTcpServer((socket) => socket.end('SSH-2.0-x\r\n'));
  const port = await listening(server);
  started.push({ close: () => server.close() });
  const { tenant, ask, place } = await fixture(echo);
  place(port);
  assert.is((await ask('/rest/v1/x', { headers: { apikey: tenant.anonKey } })).status, 502);
});

for (const head of [
  '042 x',
  '600 x',
  '101 x\r\nContent-Length: 0',
  '101 x\r\nConnection: Upgrade\r\nUpgrade: websocket',
  '200 x\r\nX-Bad: a\x01b',
]) {
  test(`a server that answers ${JSON.stringify(head)} causes a 502, and gets the next request`, async () => {
    let requests = 0;
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      // All but the first are invalid, and arrive on a reused connection.
      socket.on('data', () =>
        socket.write(`HTTP/1.1 ${requests++ === 0 ? '200 OK\r\nContent-Length: 0' : head}\r\n\r\n`),
      );
    });
    const port = await listening(server);
    started.push({ close: () => server.close() });
    const { tenant, ask, place } = await fixture(echo);
    place(port);
    const headers = { apikey: tenant.anonKey };
    const statuses: number[] = [];
    for (let i = 0; i < 3; i++) statuses.push((await ask('/rest/v1/x', { method: 'POST', headers })).status);
    assert.equal(statuses, [200, 502, 502]);
    assert.is(requests, 3);
  });
}

test('a pod that responds after its slow caller was rejected affects no other request', async () => {
  const begun = Promise.withResolvers<() => void>();
  const closed = Promise.withResolvers<void>();
  const takes: RequestListener = (incoming, outgoing) => {
    if (incoming.method === 'GET') return echo(incoming, outgoing);
    incoming.socket.once('close', () => closed.resolve());
    begun.resolve(() => outgoing.end('late'));
  };
  const patience = { requestMilliseconds: 1_500, checkMilliseconds: 50 };
  const { tenant, port, ref, ask } = await fixture(takes, {}, undefined, patience);
  const headers = { host: `${ref}.${DOMAIN}`, apikey: tenant.anonKey, 'content-length': '10' };
  const slow = request({ host: '127.0.0.1', port, method: 'POST', path: '/rest/v1/x', headers, agent: false });
  slow.on('error', () => undefined).write('x');
  const answer = await new Promise<IncomingMessage>((resolve) => slow.on('response', resolve));
  answer.resume();
  assert.is(answer.statusCode, 408);
  (await begun.promise)();
  await closed.promise;
  assert.is((await ask('/rest/v1/x', { headers: { apikey: tenant.anonKey } })).status, 200);
});

test.run();
