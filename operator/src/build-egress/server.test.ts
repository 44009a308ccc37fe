/** Tests the egress proxy that builds of a cluster share, with a real API and a real store of sites. */
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { HOSTING_STORE_PORT, storeOriginOf } from '@slipway/installation';
import type { EgressProxy } from '@slipway/kaniko-build-wrapper';
import { endRequests, listen } from '@slipway/program';
import { BuildLogs, contentStoreServer, previewName, publishTo, Sites, signGrant } from '@slipway/sites';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startBuildEgress } from './server.js';
import { readEgressSettings } from './settings.js';

const folder = mkdtempSync(path.join(tmpdir(), 'egress-'));
const seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] = [];
/**
 * Address of the store: an address of this machine that no other test uses, because the port of a store is always the
 * same.
 */
const STORE_HOST = `127.78.${process.pid % 250}.7`;
const STORE_TOKEN = 'the token of the store, of at least 32 characters';
const LIMITS = { files: 10, fileBytes: 1000, totalBytes: 2000 };
let platform: Server;
let store: Server;
let egress: EgressProxy;

test.before(async () => {
  platform = createServer(async (incoming, outgoing) => {
    const { method = '', url = '', headers } = incoming;
    seen.push({ method, url, headers, body: await text(incoming) });
    outgoing
      .setHeader('set-cookie', 'a=b')
      .writeHead(url.includes('refused') ? 422 : 200)
      .end('{"answered":true}');
  });
  await once(platform.listen(0, '127.0.0.1'), 'listening');
  store = await contentStoreServer({
    sites: new Sites(path.join(folder, 'sites')),
    logs: new BuildLogs(path.join(folder, 'logs')),
    token: () => STORE_TOKEN,
    onError: (error) => assert.unreachable(String(error)),
  });
  await listen(store, `${STORE_HOST}:${HOSTING_STORE_PORT}`);
  egress = await startBuildEgress(settings(), pino({ level: 'silent' }));
});
const settings = () => ({
  listen: '127.0.0.1:0',
  apiUrl: `http://127.0.0.1:${(platform.address() as AddressInfo).port}`,
  hostingUrls: [`http://${STORE_HOST}:8080`],
  allowedNetworks: [],
  blockedNetworks: ['203.0.113.0/24'],
  logLevel: 'silent',
});
test.before.each(() => void seen.splice(0));
test.after(async () => {
  await egress.close();
  platform.close();
  await endRequests(store);
  rmSync(folder, { recursive: true, force: true });
});

async function ask(method: string, target: string, headers: Record<string, string> = {}, body = '') {
  const { hostname: host, port } = new URL(egress.url);
  const sent = request({ host, port, method, path: target, headers, agent: false });
  sent.end(body);
  const [response] = await once(sent, 'response');
  return { status: response.statusCode as number, headers: response.headers, body: await text(response) };
}

test('the proxy forwards a ticket to the API, with the address of the build’s pod and no other header', async () => {
  const headers = { 'x-build-ticket': 'ticket', authorization: 'Bearer x', cookie: 'c', 'x-forwarded-for': '8.8.8.8' };
  const { status, body } = await ask('POST', '/builds/shop/build-7/credentials', headers);
  assert.equal([status, body], [200, '{"answered":true}']);
  const { 'x-build-ticket': ticket, authorization, cookie, 'x-forwarded-for': address } = seen[0]?.headers ?? {};
  assert.equal([ticket, authorization, cookie, address], ['ticket', undefined, undefined, '127.0.0.1']);
});

test('the proxy forwards an output with its build’s token, and returns the message of a rejection', async () => {
  const output = path.join(folder, 'output');
  mkdirSync(output);
  writeFileSync(path.join(output, 'index.html'), 'hello');
  const grant = { ref: 'shop', build: 'build-7', limits: LIMITS, expiresAt: Date.now() + 60_000 };
  const to = { origin: egress.url, token: signGrant(grant, STORE_TOKEN), ref: 'shop', build: 'build-7' };
  assert.equal(await publishTo(to, output, LIMITS), { id: 'build-7', files: 1, bytes: 5, warnings: [] });
  assert.match(String(await publishTo({ ...to, build: 'build-8' }, output, LIMITS).catch(String)), /answered 401/);
  const small = { ...grant, build: 'build-9', limits: { ...LIMITS, totalBytes: 1 } };
  const refused = publishTo({ ...to, build: 'build-9', token: signGrant(small, STORE_TOKEN) }, output, LIMITS);
  assert.match(String(await refused.catch(String)), /larger than its plan allows/);
});

test('the output of a preview goes to the store that has its project', async () => {
  const hostingUrls = [`http://${STORE_HOST}:8080`, 'http://127.0.0.1:9'];
  const refs = Array.from({ length: 50 }, (_, at) => `shop${at}`);
  const isThere = (site: string) => storeOriginOf(site, hostingUrls).includes(STORE_HOST);
  const ref = refs.find((each) => isThere(each) && !isThere(previewName(each, 'next'))) as string;
  const preview = previewName(ref, 'next');
  const own = await startBuildEgress({ ...settings(), hostingUrls }, pino({ level: 'silent' }));
  try {
    const grant = { ref: preview, build: 'build-7', limits: LIMITS, expiresAt: Date.now() + 60_000 };
    const to = { origin: own.url, token: signGrant(grant, STORE_TOKEN), ref: preview, build: 'build-7' };
    const output = path.join(folder, 'preview');
    mkdirSync(output);
    writeFileSync(path.join(output, 'index.html'), 'next');
    assert.is((await publishTo(to, output, LIMITS)).files, 1);
  } finally {
    await own.close();
  }
});

for (const [method, target] of [
  ['GET', '/builds/shop/build-7/credentials'],
  ['POST', '/builds/../projects/credentials'],
  ['POST', '/projects'],
  ['POST', '/builds/shop/build-7/credentials?x=1'],
  ['POST', '/builds/shop/build-7/credentials/../../../../projects'],
  ['PUT', '/sites/shop/live'],
  ['GET', '/metrics'],
] as const) {
  test(`the proxy returns 404 for ${method} ${target}`, async () => {
    assert.is((await ask(method, target)).status, 404);
    assert.equal(seen, []);
  });
}

for (const target of ['127.0.0.1:1', '10.96.0.1:443', '169.254.169.254:80', '203.0.113.7:443', '[::1]:80']) {
  test(`a build gets no connection to ${target}`, async () => {
    const { hostname, port } = new URL(egress.url);
    const socket = connect(Number(port), hostname);
    socket.end(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n\r\n`);
    assert.match(await text(socket), /^HTTP\/1\.1 403 /);
  });
}

test('the proxy rejects the platform’s own address when the request has it as a URL', async () => {
  const { port } = platform.address() as AddressInfo;
  assert.is((await ask('GET', `http://127.0.0.1:${port}/`)).status, 403);
  assert.equal(seen, []);
});

/** Connects `count` times and leaves the connections open. `addresses`: the clients' addresses, in turn. */
async function connected(count: number, addresses: readonly string[]) {
  const { hostname, port } = new URL(egress.url);
  const sockets: Socket[] = [];
  const closed = { count: 0 };
  for (let made = 0; made < count; made += 1) {
    const localAddress = addresses[made % addresses.length] as string;
    const socket = connect({ port: Number(port), host: hostname, localAddress });
    socket
      .on('error', () => undefined)
      .once('close', () => {
        closed.count += 1;
      });
    sockets.push(socket);
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  }
  return { sockets, closed };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

for (const [what, most, addresses] of [
  ['one build holds', 64, ['127.0.0.1']],
  ['all builds hold', 1024, Array.from({ length: 20 }, (_, each) => `127.0.1.${each + 1}`)],
] as const) {
  test(`${what} ${most} connections at most, and the proxy responds to its probes afterwards`, async () => {
    const count = most + 40;
    const { sockets, closed } = await connected(count, addresses);
    await until(() => closed.count >= count - most, 'the connections beyond the limit to be closed');
    for (let each = 0; each < 20; each += 1) await turn();
    assert.is(closed.count, count - most);
    for (const socket of sockets) socket.destroy();
    await until(() => closed.count === count, 'all connections to be closed');
    const healthy = await until(() => ask('GET', '/healthz').catch(() => undefined), 'the proxy to answer');
    assert.is(healthy.status, 200);
  });
}

test('readEgressSettings throws an error that names the missing variable', () => {
  const file = path.join(folder, 'site.yaml');
  writeFileSync(file, 'publicUrl: https://slipway.example.com\noutbound: { allowedNetworks: [10.1.0.0/16] }\n');
  const environment = { SLIPWAY_SITE: file, SLIPWAY_LISTEN: '0.0.0.0:8080', SLIPWAY_API_URL: 'http://slipway-api' };
  assert.equal(readEgressSettings(environment).allowedNetworks, ['10.1.0.0/16']);
  assert.throws(() => readEgressSettings({ ...environment, SLIPWAY_API_URL: '' }), /SLIPWAY_API_URL is not set/);
  assert.throws(
    () => readEgressSettings({ ...environment, SLIPWAY_SITE: '', SLIPWAY_PUBLIC_URL: 'http://localhost:4000' }),
    /SLIPWAY_SITE is not set/,
  );
});

test.run();
