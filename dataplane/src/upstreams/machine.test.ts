/** Tests a gateway in front of projects' machines, which are TLS servers on loopback addresses with one port. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type IncomingHttpHeaders, type IncomingMessage, type RequestListener, request, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, Server as NetServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import { selfSigned } from '@slipway/certificates/self-signed.testing.js';
import { PROJECT_SERVICES, type ProjectService } from '@slipway/crds';
import { freePort, until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import WebSocket, { WebSocketServer } from 'ws';
import { createGateway } from '../gateway/server.js';
import type { BackendTenant, Tenant } from '../projects/tenant.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createMachineServices, type MachineOptions } from './machine.js';
import { createManagement } from './management.js';

const PUBLIC_URL = 'http://slipway.test';
const MB = 1_000_000;

const started: { close(): unknown }[] = [];
/** Projects as the gateway sees them, and as the machine services see them. */
const tenants = new Map<string, Tenant>();
let machinePort: number;
let gateway: ReturnType<typeof startGateway> extends Promise<infer T> ? T : never;

test.before(async () => {
  machinePort = await freePort();
  gateway = await startGateway();
});
test.after(async () => {
  for (const { close } of started.reverse()) await close();
});

async function startGateway({ sockets = 100, ...options }: Partial<MachineOptions> = {}) {
  const machines = createMachineServices({ tenant: (ref) => tenants.get(ref), port: machinePort, sockets, ...options });
  const stale = new Map<string, Tenant>();
  const server = createGateway({
    publicUrl: PUBLIC_URL,
    tenant: (ref) => stale.get(ref) ?? tenants.get(ref),
    complete: () => true,
    services: {},
    machines,
    behindIngress: true,
    rateLimit: 0,
    management: createManagement(undefined, PUBLIC_URL),
    log: pino({ level: 'silent' }),
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    for (const service of Object.values(machines)) await service.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  started.push({ close });
  const forget = async (ref: string) => {
    for (const service of Object.values(machines)) await service.forget(ref);
  };
  return { port, machines, stale, forget };
}

interface TestMachine {
  address: string;
  server: Server;
  /** TLS connections that are open, and their number so far. */
  connections: Set<TLSSocket>;
  opened: number;
  /** Bytes that arrived inside of TLS. */
  received: number;
  /** Stops listening. Open connections stay. */
  stopListening(): Promise<void>;
  close(): void;
}

let addresses = 1;
const newAddress = () => `127.0.0.${++addresses}`;

/** Starts a machine whose key and certificate are in one PEM. */
async function startMachine(pem: string, listener: RequestListener, address = newAddress()): Promise<TestMachine> {
  const server = createHttpsServer({ key: pem, cert: pem }, listener) as unknown as Server;
  const stopListening = () =>
    new Promise<void>((resolve) => {
      // The server of HTTP would close its idle connections, too.
      NetServer.prototype.close.call(server, () => resolve());
      resolve();
    });
  const machine: TestMachine = {
    address,
    server,
    connections: new Set(),
    opened: 0,
    received: 0,
    stopListening,
    close: () => {
      for (const socket of machine.connections) socket.destroy();
      server.close();
    },
  };
  server.on('secureConnection', (socket: TLSSocket) => {
    machine.opened++;
    machine.connections.add(socket);
    socket
      .on('error', () => undefined)
      .on('data', (chunk: Buffer) => {
        machine.received += chunk.length;
      });
    socket.once('close', () => machine.connections.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(machinePort, address, resolve));
  started.push(machine);
  return machine;
}

const certificateOf = (pem: string) => pem.slice(pem.indexOf('-----BEGIN CERTIFICATE-----'));

/** Returns the request that it got. */
const echo: RequestListener = async (incoming, outgoing) => {
  const { method, url, headers } = incoming;
  const body = await text(incoming);
  outgoing.setHeader('content-type', 'application/json');
  outgoing.end(JSON.stringify({ method, url, headers, body }));
};

let count = 0;
const newTenant = async (machine: BackendTenant['machine'], own: Partial<BackendTenant> = {}) => {
  const ref = `shop-${++count}`;
  const services = new Set(PROJECT_SERVICES);
  const url = `${PUBLIC_URL}/p/${ref}`;
  const tenant = tenantWithoutDatabase(ref, {
    ...(await signedKeys()),
    type: 'dedicated',
    upstream: 'machine',
    services,
    url,
    machine,
    ...own,
  });
  tenants.set(ref, tenant);
  return tenant;
};

/** Project with a machine that answers with `listener`. */
async function project(listener: RequestListener = echo) {
  const address = newAddress();
  const pem = await selfSigned(address);
  const machine = await startMachine(pem, listener, address);
  const tenant = await newTenant({ address, certificate: certificateOf(pem) });
  return { tenant, machine, pem };
}

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  // biome-ignore lint: a test says itself what it expects.
  json: any;
}

interface AskOptions {
  service?: ProjectService;
  path?: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  port?: number;
}

function begin(tenant: BackendTenant, { service = 'rest', path = '/todos', port, ...more }: AskOptions = {}) {
  return request({
    host: '127.0.0.1',
    port: port ?? gateway.port,
    path: `/p/${tenant.ref}/${service}/v1${path}`,
    method: more.method ?? 'GET',
    headers: { apikey: tenant.serviceRoleKey, ...more.headers },
    agent: false,
  });
}

const answerTo = (sent: ReturnType<typeof request>) =>
  new Promise<IncomingMessage>((resolve, reject) => sent.once('response', resolve).once('error', reject));

async function ask(tenant: BackendTenant, options: AskOptions = {}): Promise<Answer> {
  const sent = begin(tenant, options);
  const answered = answerTo(sent);
  sent.end(options.body);
  const answer = await answered;
  const body = await text(answer);
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {}
  return { status: answer.statusCode as number, headers: answer.headers, text: body, json };
}

const assertDown = (answer: Answer) => {
  assert.equal([answer.status, answer.headers['retry-after']], [502, '2']);
  assert.match(answer.text, /machine does not answer.*POST \/projects\/\{id\}\/services\/\{service\}\/restart/);
};

test('a request of each service reaches the machine with its path, key and the client’s address', async () => {
  const { tenant, machine } = await project();
  for (const service of PROJECT_SERVICES) {
    const headers = { 'x-forwarded-for': '6.6.6.6, 203.0.113.7', 'content-type': 'text/plain' };
    const { status, json } = await ask(tenant, { service, path: '/a?x=1', method: 'POST', headers, body: 'hello' });
    assert.is(status, 200);
    assert.equal([json.method, json.url, json.body], ['POST', `/p/${tenant.ref}/${service}/v1/a?x=1`, 'hello']);
    const { apikey, host, 'x-forwarded-for': from } = json.headers;
    assert.equal([apikey, host, from], [tenant.serviceRoleKey, 'slipway.test', '203.0.113.7']);
  }
  const { opened } = machine;
  await ask(tenant);
  assert.is(machine.opened, opened, 'the connection is reused');
});

test('an upload and a download of 20 MB are streamed', async () => {
  let uploaded = 0;
  const { tenant } = await project((incoming, outgoing) => {
    if (incoming.method === 'GET') {
      let left = 20;
      const next = () => (left-- > 0 ? outgoing.write(Buffer.alloc(MB, 7), next) : outgoing.end());
      return void next();
    }
    incoming.on('data', (chunk: Buffer) => {
      uploaded += chunk.length;
    });
    incoming.once('end', () => outgoing.end('stored'));
  });
  const headers = { 'content-type': 'application/octet-stream' };
  const upload = begin(tenant, { service: 'storage', path: '/object/files/a', method: 'POST', headers });
  const answered = answerTo(upload);
  upload.write(Buffer.alloc(MB));
  await until(() => uploaded === MB, 'the first part to arrive before the others are sent');
  for (let part = 1; part < 20; part++) upload.write(Buffer.alloc(MB));
  upload.end();
  assert.is(await text(await answered), 'stored');
  assert.is(uploaded, 20 * MB);
  const download = begin(tenant, { service: 'storage', path: '/object/files/a' }).end();
  let bytes = 0;
  for await (const chunk of await answerTo(download)) bytes += (chunk as Buffer).length;
  assert.is(bytes, 20 * MB);
});

const openSocket = (tenant: BackendTenant, port = gateway.port) => {
  const url = `ws://127.0.0.1:${port}/p/${tenant.ref}/realtime/v1/websocket?apikey=${tenant.anonKey}&vsn=1.0.0`;
  const socket = new WebSocket(url);
  socket.on('error', () => undefined);
  return socket;
};

/** Resolves to 101, or the response of a rejected handshake. */
const handshakeOf = (socket: WebSocket) =>
  new Promise<{ status: number; text: string }>((resolve) => {
    socket.once('open', () => resolve({ status: 101, text: '' }));
    socket.once('unexpected-response', async (_, answer) =>
      resolve({ status: answer.statusCode as number, text: await text(answer) }),
    );
  });

const serveSockets = ({ server }: TestMachine) => {
  const sockets = new WebSocketServer({ server: server as never });
  sockets.on('connection', (socket) => {
    socket.on('error', () => undefined).on('message', (data) => socket.send(`machine got ${data}`));
  });
  return sockets;
};

test('a WebSocket carries messages both ways', async () => {
  const { tenant, machine } = await project();
  const sockets = serveSockets(machine);
  const handshakes: IncomingMessage[] = [];
  sockets.on('connection', (_, incoming) => handshakes.push(incoming));
  const socket = openSocket(tenant);
  assert.is((await handshakeOf(socket)).status, 101);
  const [seen] = handshakes as [IncomingMessage];
  assert.equal([seen.url, seen.headers.apikey], [`/p/${tenant.ref}/realtime/v1/websocket?vsn=1.0.0`, tenant.anonKey]);
  const answered = new Promise((resolve) => socket.once('message', (data) => resolve(String(data))));
  socket.send('hello');
  assert.is(await answered, 'machine got hello');
  for (const each of sockets.clients) each.close(4000);
  assert.is(await new Promise((resolve) => socket.once('close', resolve)), 4000);
});

test('a machine with another certificate gets no byte of a request or handshake', async () => {
  const impostor = await startMachine(await selfSigned('127.0.0.1'), echo);
  const certificate = certificateOf(await selfSigned(impostor.address));
  const tenant = await newTenant({ address: impostor.address, certificate });
  assertDown(await ask(tenant));
  assertDown(await ask(tenant, { method: 'POST', body: 'secret' }));
  const storage = await ask(tenant, { service: 'storage', path: '/bucket' });
  assertDown(storage);
  assert.equal([storage.json.statusCode, storage.json.error], ['502', 'Bad Gateway']);
  serveSockets(impostor);
  const { status, text: body } = await handshakeOf(openSocket(tenant));
  assert.is(status, 502);
  assert.match(body, /machine does not answer/);
  assert.is(impostor.received, 0);
});

test('an impostor at the address of a machine with a kept connection gets no byte', async () => {
  const { tenant, machine } = await project();
  assert.is((await ask(tenant)).status, 200);
  await machine.stopListening();
  const impostor = await startMachine(await selfSigned(machine.address), echo, machine.address);
  assert.is((await ask(tenant)).status, 200);
  assert.is(machine.opened, 1, 'the kept connection is to the machine');
  for (const socket of machine.connections) socket.destroy();
  assertDown(await ask(tenant));
  assertDown(await ask(tenant));
  assert.is(impostor.received, 0);
});

test('a certificate that the pinned one has signed is rejected', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-unit-'));
  const openssl = (...words: string[]) => execFileSync('openssl', words, { cwd: folder, stdio: 'pipe' });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  openssl('req', '-x509', ...newKey, '-subj', '/CN=ca', '-days', '2', '-keyout', 'ca.key', '-out', 'ca.pem');
  openssl('req', ...newKey, '-subj', '/CN=leaf', '-keyout', 'leaf.key', '-out', 'leaf.csr');
  openssl('x509', '-req', '-in', 'leaf.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-days', '2', '-out', 'leaf.pem');
  const read = (name: string) => readFileSync(path.join(folder, name), 'utf8');
  const [pinned, own] = [read('ca.key') + read('ca.pem'), read('leaf.key') + read('leaf.pem')];
  rmSync(folder, { recursive: true });
  const machine = await startMachine(own, echo);
  const tenant = await newTenant({ address: machine.address, certificate: certificateOf(pinned) });
  assertDown(await ask(tenant));
  assert.is(machine.received, 0);
  (machine.server as unknown as { setSecureContext(options: object): void }).setSecureContext({
    key: pinned,
    cert: certificateOf(pinned),
  });
  assert.is((await ask(tenant)).status, 200);
});

test('an expired certificate is rejected', async () => {
  const address = newAddress();
  const pem = await selfSigned(address, { notBefore: Date.now() - 20_000, notAfter: Date.now() - 10_000 });
  const machine = await startMachine(pem, echo, address);
  assertDown(await ask(await newTenant({ address, certificate: certificateOf(pem) })));
  assert.is(machine.received, 0);
});

test('a server without TLS gets no byte of a request', async () => {
  const address = newAddress();
  let received = '';
  const server = createTcpServer((socket) => {
    socket
      .on('error', () => undefined)
      .on('data', (chunk) => {
        received += chunk.toString('latin1');
        socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
      });
  });
  await new Promise<void>((resolve) => server.listen(machinePort, address, resolve));
  started.push({ close: () => server.close() });
  const tenant = await newTenant({ address, certificate: certificateOf(await selfSigned(address)) });
  assertDown(await ask(tenant));
  assert.ok(received.length > 0);
  assert.not.match(received, /HTTP|apikey|todos/);
});

const withMachine = (tenant: BackendTenant, machine: BackendTenant['machine']) => {
  const next = { ...tenant, incarnation: `${tenant.incarnation}+`, machine };
  tenants.set(tenant.ref, next);
  return next;
};

test('a new certificate of the tenant is required at once, and idle connections are not reused', async () => {
  const { tenant, machine, pem } = await project();
  assert.is((await ask(tenant)).status, 200);
  const renewed = await selfSigned(machine.address);
  const { address } = machine;
  withMachine(tenant, { address, certificate: certificateOf(renewed) });
  const { received } = machine;
  assertDown(await ask(tenant));
  assert.is(machine.received, received);
  (machine.server as unknown as { setSecureContext(options: object): void }).setSecureContext({
    key: renewed,
    cert: renewed,
  });
  const { opened } = machine;
  assert.is((await ask(tenant)).status, 200);
  assert.is(machine.opened, opened + 1);
  await gateway.forget(tenant.ref);
  withMachine(tenant, { address, certificate: certificateOf(pem) });
  assertDown(await ask(tenant));
});

test('two projects with the same address and certificate have connections of their own', async () => {
  const { tenant, machine } = await project();
  const other = await newTenant(tenant.machine);
  for (const each of [tenant, other]) assert.is((await ask(each)).status, 200);
  assert.is(machine.opened, 2);
});

test('a request never reaches the machine of another project', async () => {
  const [one, two] = [await project(), await project()];
  assert.is((await ask(one.tenant)).json.headers.apikey, one.tenant.serviceRoleKey);
  assert.is(two.machine.received, 0);
  const { status } = await ask(two.tenant, { headers: { apikey: one.tenant.serviceRoleKey } });
  assert.is(status, 401);
  assert.is(two.machine.received, 0);
  one.machine.close();
  await until(() => one.machine.connections.size === 0, 'the machine to stop');
  assertDown(await ask(one.tenant));
  assert.is(two.machine.received, 0);
});

test('a request that was authorized for a former machine or project is sent nowhere', async () => {
  const { tenant, machine } = await project();
  const next = await project();
  gateway.stale.set(tenant.ref, tenant);
  const changes: (Tenant | undefined)[] = [
    undefined,
    { ...tenant, suspended: true },
    { ...tenant, incarnation: 'another', machine: next.tenant.machine },
  ];
  for (const now of changes) {
    if (now) tenants.set(tenant.ref, now);
    else tenants.delete(tenant.ref);
    assertDown(await ask(tenant));
    assert.is((await handshakeOf(openSocket(tenant))).status, 502);
  }
  assert.equal([machine.received, next.machine.received], [0, 0]);
});

test('a project without a machine gets 503 with Retry-After, in the format of each service', async () => {
  const tenant = await newTenant(undefined);
  for (const service of PROJECT_SERVICES) {
    const { status, headers, text: body } = await ask(tenant, { service });
    assert.equal([status, headers['retry-after']], [503, '10']);
    assert.match(body, /machine is being set up/);
  }
  const { json } = await ask(tenant, { service: 'storage' });
  assert.is(json.statusCode, '503');
  assert.is((await handshakeOf(openSocket(tenant))).status, 503);
});

test('a suspended project’s request does not reach the machine', async () => {
  const { tenant, machine } = await project();
  tenants.set(tenant.ref, { ...tenant, suspended: true });
  const { status, json } = await ask(tenant);
  assert.equal([status, json.code], [503, 'project_suspended']);
  assert.is(machine.opened, 0);
});

test('a 502 of the machine’s own web server is passed on', async () => {
  const { tenant } = await project((_, outgoing) => {
    outgoing.writeHead(502, { 'Retry-After': '2', 'Content-Type': 'application/json' }).end('{"message":"starting"}');
  });
  const { status, headers, text: body } = await ask(tenant);
  assert.equal([status, headers['retry-after'], body], [502, '2', '{"message":"starting"}']);
});

test('a machine that resets the connection, or that nothing listens at, causes a 502 with the remedy', async () => {
  const { tenant } = await project((incoming) => incoming.socket.destroy());
  assertDown(await ask(tenant, { method: 'POST', body: 'x' }));
  const address = newAddress();
  const absent = await newTenant({ address, certificate: certificateOf(await selfSigned(address)) });
  assertDown(await ask(absent));
});

/** Server that accepts connections and stays silent. */
async function startSilent() {
  const address = newAddress();
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(machinePort, address, resolve));
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  started.push({ close });
  const tenant = await newTenant({ address, certificate: certificateOf(await selfSigned(address)) });
  return { tenant, sockets };
}

test('a machine that is too slow causes a 504, in the handshake and after it', async () => {
  const limits = { connectMilliseconds: 300, stillMilliseconds: 300 };
  const slow = await startGateway({ limits, handshakeMilliseconds: 300 });
  const silent = await startSilent();
  assert.is((await ask(silent.tenant, { port: slow.port })).status, 504);
  assert.is((await handshakeOf(openSocket(silent.tenant, slow.port))).status, 504);
  await until(() => silent.sockets.size === 0, 'the connection to be closed');
  const { tenant } = await project(() => undefined);
  assert.is((await ask(tenant, { port: slow.port })).status, 504);
});

test('a caller that disconnects ends the handshake with the machine', async () => {
  const { port } = await startGateway({ limits: { connectMilliseconds: 60_000 } });
  const { tenant, sockets } = await startSilent();
  const sent = begin(tenant, { port }).on('error', () => undefined);
  sent.end();
  await until(() => sockets.size === 1, 'the connection');
  sent.destroy();
  await until(() => sockets.size === 0, 'the connection to be closed');
});

test('forget closes the project’s connections, and repeats no request', async () => {
  let isHanging = false;
  const { tenant, machine } = await project((incoming, outgoing) => {
    if (!isHanging) echo(incoming, outgoing);
  });
  const neighbour = await project();
  serveSockets(machine);
  await ask(tenant);
  await ask(neighbour.tenant);
  const socket = openSocket(tenant);
  assert.is((await handshakeOf(socket)).status, 101);
  isHanging = true;
  const { received, opened } = machine;
  const hanging = ask(tenant);
  await until(() => machine.received > received, 'the request');
  await gateway.forget(tenant.ref);
  assertDown(await hanging);
  await until(() => socket.readyState === WebSocket.CLOSED && machine.connections.size === 0, 'closed connections');
  assert.equal([machine.opened, neighbour.machine.connections.size], [opened, 1]);
});

test('forget closes idle connections and those in a handshake', async () => {
  const { tenant, machine } = await project();
  await ask(tenant);
  assert.is(machine.connections.size, 1);
  await gateway.forget(tenant.ref);
  await until(() => machine.connections.size === 0, 'the idle connection to be closed');
  const silent = await startSilent();
  const sent = ask(silent.tenant);
  await until(() => silent.sockets.size === 1, 'the handshake');
  await gateway.forget(silent.tenant.ref);
  assertDown(await sent);
  await until(() => silent.sockets.size === 0, 'the handshake to end');
});

test('a project gets a share of the places for WebSockets and requests', async () => {
  const small = await startGateway({ limits: { atOnce: 10 }, sockets: 10 });
  const { tenant, machine } = await project(() => undefined);
  const sockets = serveSockets(machine);
  const handshakes = await Promise.all(
    Array.from({ length: 5 }, () => handshakeOf(openSocket(tenant, small.port)).then(({ status }) => status)),
  );
  assert.equal(handshakes.sort(), [101, 101, 503, 503, 503]);
  const sent = Array.from({ length: 5 }, () => begin(tenant, { port: small.port }).on('error', () => undefined));
  const statuses: (number | undefined)[] = [];
  for (const each of sent) each.once('response', (answer) => statuses.push(answer.statusCode)).end();
  await until(() => statuses.length === 3, 'the rejections');
  assert.equal(statuses, [503, 503, 503]);
  for (const each of sent) each.destroy();
  for (const each of sockets.clients) each.terminate();
});

test.run();
