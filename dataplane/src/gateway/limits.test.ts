/** Tests the limits of one caller, and that other callers are served while one exceeds its limits. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { VERIFIED_HEADER } from '@slipway/installation';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { comesFrom } from '../http/client-address.js';
import type { BackendTenant } from '../projects/tenant.js';
import type { Service } from '../services/service.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createManagement } from '../upstreams/management.js';
import { createGateway, type GatewayServerOptions } from './server.js';

const PUBLIC_URL = 'http://localhost:4000';
const tenants = new Map<string, BackendTenant>();
const closings: (() => void)[] = [];
let blog: BackendTenant;
let shop: BackendTenant;

test.before(async () => {
  for (const ref of ['blog-x1', 'shop']) tenants.set(ref, tenantWithoutDatabase(ref, await signedKeys()));
  [blog, shop] = [...tenants.values()] as [BackendTenant, BackendTenant];
});

test.after(() => {
  for (const close of closings.reverse()) close();
});

/** Service that returns the caller's address. */
const witness: Service = {
  handle: async ({ address, outgoing }) => void outgoing.end(address),
  forget: async () => undefined,
  close: async () => undefined,
};

function newGateway(options: Partial<GatewayServerOptions>): Server {
  const server = createGateway({
    publicUrl: PUBLIC_URL,
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services: { rest: witness },
    management: createManagement(undefined, PUBLIC_URL),
    log: pino({ level: 'silent' }),
    ...options,
  });
  return closing(server);
}

function closing<S extends Server>(server: S): S {
  closings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

async function urlOf(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** True if one of `count` concurrent requests is rejected. A new second may begin during them. */
async function isRefused(send: (at: number) => Promise<Response>): Promise<boolean> {
  const answers = await Promise.all(Array.from({ length: 30 }, (_, at) => send(at)));
  return answers.some(({ status }) => status === 429);
}

test('an address with too many requests to a project in a second gets 429, and other projects are served', async () => {
  const url = await urlOf(newGateway({ rateLimit: 3 }));
  const send = ({ ref, anonKey }: BackendTenant) =>
    fetch(`${url}/p/${ref}/rest/v1/x`, { headers: { apikey: anonKey } });
  const answers = await Promise.all(Array.from({ length: 30 }, () => send(blog)));
  const refused = answers.find(({ status }) => status === 429);
  assert.is(refused?.headers.get('retry-after'), '1');
  assert.match(JSON.stringify(await refused?.json()), /Too many requests/);
  assert.is((await send(shop)).status, 200);
  while ((await send(blog)).status === 429);
});

test('the limit behind an ingress counts the address that the ingress appended, not one from the caller', async () => {
  const url = await urlOf(newGateway({ rateLimit: 3, behindIngress: true }));
  const send = (forwarded: string) =>
    fetch(`${url}/p/blog-x1/rest/v1/x`, { headers: { apikey: blog.anonKey, 'x-forwarded-for': forwarded } });
  assert.is(await (await send('6.6.6.6, 192.0.2.1')).text(), '192.0.2.1');
  assert.is(await (await send('2001:db8::1')).text(), '2001:db8::1');
  assert.is(await (await send('no address')).text(), '127.0.0.1');
  assert.ok(await isRefused((at) => send(`10.0.0.${at}, 192.0.2.9`)));
  assert.is((await send('192.0.2.9, 192.0.2.10')).status, 200);
  const elsewhere = await fetch(`${url}/projects`, { method: 'POST', body: '{}' });
  assert.is(elsewhere.status, 404);
  assert.match(((await elsewhere.json()) as { detail: string }).detail, /management API is at http:\/\/localhost:4000/);
});

test('all addresses of an IPv6 network share a limit', async () => {
  const url = await urlOf(newGateway({ rateLimit: 3, behindIngress: true }));
  const send = (forwarded: string) =>
    fetch(`${url}/p/blog-x1/rest/v1/x`, { headers: { apikey: blog.anonKey, 'x-forwarded-for': forwarded } });
  assert.ok(await isRefused((at) => send(`2001:db8:0:${at}::1`)));
  assert.not(await isRefused((at) => send(`2001:db8:${at + 2}::1`)));
});

for (const [place, behindIngress] of [
  ['without an ingress', false],
  ['behind an ingress', true],
] as const)
  test(`a request over a socket without an address counts for its listener’s caller ${place}`, async () => {
    const gateway = newGateway({ rateLimit: 3, behindIngress });
    const folder = await mkdtemp(path.join(tmpdir(), 'slipway-gateway-'));
    closings.push(() => void rm(folder, { recursive: true, force: true }));
    const listener = closing(
      createServer((incoming, outgoing) => {
        comesFrom(incoming, incoming.headers['x-test-of'] as string);
        gateway.emit('request', incoming, outgoing);
      }),
    );
    const socketPath = path.join(folder, 's');
    await new Promise<void>((resolve) => listener.listen(socketPath, resolve));
    const send = async (of: string) => {
      const headers = { apikey: blog.anonKey, 'x-test-of': of, 'x-forwarded-for': '192.0.2.1' };
      const [answer] = await once(
        request({ socketPath, path: '/p/blog-x1/rest/v1/x', headers, agent: false }).end(),
        'response',
      );
      let body = '';
      for await (const chunk of answer) body += chunk;
      return { status: answer.statusCode as number, body };
    };
    assert.equal(await send('fd00::1'), { status: 200, body: 'fd00::1' });
    const flood = await Promise.all(Array.from({ length: 30 }, () => send('fd00:0:1:1::1')));
    assert.ok(flood.some(({ status }) => status === 429));
    assert.is((await send('fd00:0:2:1::1')).status, 200);
  });

/** Port of a gateway in front of a management API that reads each body before it responds. */
async function inFrontOf(answer: (incoming: IncomingMessage, outgoing: ServerResponse) => void): Promise<number> {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-gateway-'));
  closings.push(() => void rm(folder, { recursive: true, force: true }));
  const api = closing(
    createServer(async (incoming, outgoing) => {
      for await (const _ of incoming);
      answer(incoming, outgoing);
    }),
  );
  await new Promise<void>((resolve) => api.listen(path.join(folder, 'api.sock'), resolve));
  const management = createManagement(path.join(folder, 'api.sock'), PUBLIC_URL);
  closings.push(() => management.close());
  return Number(new URL(await urlOf(newGateway({ management }))).port);
}

test('clients that never send their bodies do not block clients at other addresses', async () => {
  const port = await inFrontOf((incoming, outgoing) => outgoing.end(incoming.headers['x-forwarded-for']));
  const sockets: Socket[] = [];
  closings.push(() => void sockets.map((socket) => socket.destroy()));
  const hold = () => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    socket.write('POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n');
    sockets.push(socket);
  };
  for (let count = 0; count < 256; count++) hold();
  const ask = async (localAddress: string) => {
    const [answer] = await once(request({ port, host: '127.0.0.1', localAddress, agent: false }).end(), 'response');
    let body = '';
    for await (const chunk of answer) body += chunk;
    return { status: answer.statusCode as number, body };
  };
  await until(async () => (await ask('127.0.0.1')).status === 503, 'a refusal');
  assert.equal(await ask('127.0.0.2'), { status: 200, body: '127.0.0.2' });
});

test('clients of many networks that never send a body leave places to new networks and known tokens', async () => {
  const port = await inFrontOf((incoming, outgoing) => {
    if (incoming.url === '/me') outgoing.setHeader(VERIFIED_HEADER, '1');
    outgoing.end();
  });
  const ask = async (url: string, localAddress: string) => {
    const sent = request({ port, host: '127.0.0.1', path: url, localAddress, agent: false }).end();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    answer.resume();
    return answer;
  };
  const [known, stranger] = ['127.0.1.1', '127.0.1.2'];
  assert.is((await ask('/me', known)).headers[VERIFIED_HEADER], undefined);
  const sockets: Socket[] = [];
  closings.push(() => void sockets.map((socket) => socket.destroy()));
  for (let network = 2; network < 22; network++) {
    const localAddress = `127.0.0.${network}`;
    for (let count = 0; count < 64; count++) {
      const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => undefined);
      socket.write('POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n');
      sockets.push(socket);
    }
    await until(async () => (await ask('/', localAddress)).statusCode === 503, 'a refusal');
  }
  assert.is((await ask('/', stranger)).statusCode, 200);
  const answers = await Promise.all(Array.from({ length: 100 }, () => ask('/me', known)));
  assert.equal([...new Set(answers.map(({ statusCode }) => statusCode))], [200]);
});

test('a network that opens as many connections as it can leaves connections to other networks', async () => {
  const port = Number(new URL(await urlOf(newGateway({ limits: { connections: 16 } }))).port);
  const sockets: Socket[] = [];
  closings.push(() => void sockets.map((socket) => socket.destroy()));
  const open = async (localAddress: string): Promise<boolean> => {
    const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => undefined);
    sockets.push(socket);
    socket.write('GET /p/shop HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const [answered] = await Promise.race([once(socket, 'data'), once(socket, 'close').then(() => [undefined])]);
    return answered instanceof Buffer;
  };
  let count = 0;
  while (await open('127.0.0.2')) count++;
  assert.is(count, 4, 'a fourth of those that are free');
  for (const network of ['127.0.0.3', '127.0.0.4', '127.0.0.5']) assert.ok(await open(network));
  assert.not(await open('127.0.0.2'));
  for (const socket of sockets.slice(0, 3)) socket.destroy();
  await until(() => open('127.0.0.2'), 'a connection in place of those that were closed');
  for (let own = 0; own < 20; own++) assert.ok(await open('127.0.0.1'), 'programs of this machine are not counted');
});

test.run();
