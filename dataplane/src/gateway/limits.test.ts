/** How much one caller may ask for, and that others are as before. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Service } from '../service.js';
import type { Tenant } from '../tenant.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { until } from '../testing/until.js';
import { comesFrom } from './client-address.js';
import { createManagement } from './management.js';
import { createGateway, type GatewayOptions } from './server.js';

const PUBLIC_URL = 'http://localhost:4000';
const tenants = new Map<string, Tenant>();
const closings: (() => void)[] = [];
let blog: Tenant;
let shop: Tenant;

test.before(async () => {
  for (const ref of ['blog-x1', 'shop']) tenants.set(ref, tenantWithoutDatabase(ref, await signedKeys()));
  [blog, shop] = [...tenants.values()] as [Tenant, Tenant];
});

test.after(() => {
  for (const close of closings.reverse()) close();
});

/** Says from where it was called. */
const witness: Service = {
  handle: async ({ address, outgoing }) => void outgoing.end(address),
  forget: async () => undefined,
  close: async () => undefined,
};

function newGateway(options: Partial<GatewayOptions>): Server {
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

/** Whether one of so many at once is refused: a second may turn between them, but not so often. */
async function isRefused(send: (at: number) => Promise<Response>): Promise<boolean> {
  const answers = await Promise.all(Array.from({ length: 30 }, (_, at) => send(at)));
  return answers.some(({ status }) => status === 429);
}

test('an address that sends too many requests to a project in a second is told so, and other projects are as before', async () => {
  const url = await urlOf(newGateway({ rateLimit: 3 }));
  const send = ({ ref, anonKey }: Tenant) => fetch(`${url}/p/${ref}/rest/v1/x`, { headers: { apikey: anonKey } });
  const answers = await Promise.all(Array.from({ length: 30 }, () => send(blog)));
  const refused = answers.find(({ status }) => status === 429);
  assert.is(refused?.headers.get('retry-after'), '1');
  assert.match(JSON.stringify(await refused?.json()), /Too many requests/);
  assert.is((await send(shop)).status, 200);
  while ((await send(blog)).status === 429);
});

test('behind an ingress the limit is of the address that the ingress saw, whatever a caller adds before it', async () => {
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

test('all addresses of one IPv6 network are one caller', async () => {
  const url = await urlOf(newGateway({ rateLimit: 3, behindIngress: true }));
  const send = (forwarded: string) =>
    fetch(`${url}/p/blog-x1/rest/v1/x`, { headers: { apikey: blog.anonKey, 'x-forwarded-for': forwarded } });
  assert.ok(await isRefused((at) => send(`2001:db8:0:1::${at}`)));
  assert.not(await isRefused((at) => send(`2001:db8:0:${at + 2}::1`)));
});

for (const behindIngress of [false, true])
  test(`what comes over a socket without an address counts for whoever its listener says${behindIngress ? ', behind an ingress too' : ''}`, async () => {
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
    const flood = await Promise.all(Array.from({ length: 30 }, () => send('fd00:0:0:1::1')));
    assert.ok(flood.some(({ status }) => status === 429));
    assert.is((await send('fd00:0:0:2::1')).status, 200);
  });

test('callers of the platform that never send their bodies hold up nobody at another address', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-gateway-'));
  closings.push(() => void rm(folder, { recursive: true, force: true }));
  const api = closing(
    createServer(async (incoming, outgoing) => {
      for await (const _ of incoming);
      outgoing.end(incoming.headers['x-forwarded-for']);
    }),
  );
  await new Promise<void>((resolve) => api.listen(path.join(folder, 'api.sock'), resolve));
  const management = createManagement(path.join(folder, 'api.sock'), PUBLIC_URL);
  closings.push(() => management.close());
  const port = Number(new URL(await urlOf(newGateway({ management }))).port);
  const held: Socket[] = [];
  closings.push(() => void held.map((socket) => socket.destroy()));
  const hold = () => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    socket.write('POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n');
    held.push(socket);
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

test.run();
