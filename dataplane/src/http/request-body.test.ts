/** Tests the budgets for request bodies in memory, through a gateway. */
import { request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../gateway/server.js';
import type { BackendTenant } from '../projects/tenant.js';
import type { Service } from '../services/service.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createManagement } from '../upstreams/management.js';
import { BODY_LIMITS, decodeFor, MAX_BODY_BYTES, readBody } from './request-body.js';

const KIB = 1024;
const LARGE = Buffer.alloc(100 * KIB);
const limits = { ...BODY_LIMITS };
const tenants = new Map<string, BackendTenant>();
let gateway: Server;
let url: string;
/** Callbacks that respond to requests whose bodies were read. */
let pending: (() => void)[] = [];

const holder: Service = {
  handle: async (request) => {
    const body = await readBody(request);
    const { length } = request.path === '/decode' ? (decodeFor(request, body) as unknown[]) : body;
    if (request.path !== '/now' && request.path !== '/fail')
      await new Promise<void>((resolve) => pending.push(resolve));
    if (request.path === '/fail') throw new Error('failed as wanted');
    request.outgoing.end(String(length));
  },
  forget: async () => undefined,
  close: async () => undefined,
};

test.before(async () => {
  Object.assign(BODY_LIMITS, {
    networkBytes: 300 * KIB,
    projectBytes: 400 * KIB,
    accountBytes: 500 * KIB,
    allBytes: 700 * KIB,
  });
  for (const [ref, account] of Object.entries({ a: 'one', b: 'one', c: 'two', d: 'three' })) {
    const tenant = tenantWithoutDatabase(ref, await signedKeys());
    tenants.set(ref, { ...tenant, authenticator: { ...tenant.authenticator, account } });
  }
  const publicUrl = 'http://localhost:4000';
  gateway = createGateway({
    publicUrl,
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services: { rest: holder },
    management: createManagement(undefined, publicUrl),
    log: pino({ level: 'silent' }),
    behindIngress: true,
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
});

test.after.each(async () => {
  const answered = pending;
  pending = [];
  for (const answer of answered) answer();
});

test.after(() => {
  Object.assign(BODY_LIMITS, limits);
  gateway.closeAllConnections();
  gateway.close();
});

const send = (ref: string, address: string, { path = '/now', body = LARGE } = {}) =>
  fetch(`${url}/p/${ref}/rest/v1${path}`, {
    method: 'POST',
    body: new Uint8Array(body),
    headers: { apikey: tenants.get(ref)?.anonKey as string, 'x-forwarded-for': address },
  });

/** Sends bodies that stay in memory until the test responds. */
async function hold(count: number, ref: string, address: string, sent = { path: '/hold', body: LARGE }): Promise<void> {
  const before = pending.length;
  for (let i = 0; i < count; i++) void send(ref, address, sent).catch(() => undefined);
  await until(() => pending.length === before + count, `${count} bodies of ${ref}`);
}

async function refusal(ref: string, address: string): Promise<[status: number, message: string]> {
  const response = await send(ref, address);
  const text = await response.text();
  assert.is(response.headers.get('retry-after'), '1', text);
  return [response.status, JSON.parse(text).message];
}

const isServed = async (ref: string, address: string) => (await send(ref, address)).status === 200;

test('bodies of one network leave memory for other networks, and small bodies are never rejected', async () => {
  await hold(3, 'a', '192.0.2.1');
  const [status, message] = await refusal('a', '192.0.2.1');
  assert.is(status, 429);
  assert.match(message, /of this address/);
  assert.is((await refusal('c', '192.0.2.1'))[0], 429);
  assert.is((await send('a', '192.0.2.1', { body: Buffer.alloc(60 * KIB) })).status, 200);
  assert.ok(await isServed('a', '192.0.2.2'));
  for (const answer of pending.splice(0)) answer();
  await until(() => isServed('a', '192.0.2.1'), 'room');
});

test('bodies of one project and of one account leave memory for bodies of others', async () => {
  await hold(2, 'a', '192.0.2.1');
  await hold(2, 'a', '192.0.2.2');
  assert.match((await refusal('a', '192.0.2.3')).join(' '), /^429 .* of this project/);
  await hold(1, 'b', '192.0.2.3');
  assert.match((await refusal('b', '192.0.2.3')).join(' '), /^429 .* of the project’s account/);
  assert.ok(await isServed('c', '192.0.2.3'));
  await hold(2, 'c', '192.0.2.4');
  assert.match((await refusal('d', '192.0.2.5')).join(' '), /^503 .* of all projects/);
});

test('a body’s bytes are released when its request succeeds, fails, is rejected or disconnects', async () => {
  for (let i = 0; i < 10; i++) {
    assert.ok(await isServed('a', '192.0.2.1'));
    assert.is((await send('a', '192.0.2.1', { path: '/fail' })).status, 500);
    assert.is((await send('a', '192.0.2.1', { body: Buffer.alloc(301 * KIB) })).status, 429);
    await breakOff();
  }
  await until(() => isServed('a', '192.0.2.1'), 'room');
  await hold(3, 'a', '192.0.2.1');
});

test('a JSON body counts by the memory that it takes after decoding', async () => {
  const body = Buffer.from(`[${'{},'.repeat(600)}1]`);
  const sent = { path: '/decode', body };
  // 1,202 values and names of 100 bytes each, in addition to the text.
  await hold(2, 'a', '192.0.2.1', sent);
  assert.is((await send('a', '192.0.2.1', sent)).status, 429);
  assert.is((await send('a', '192.0.2.1', { body })).status, 200);
  await hold(1, 'a', '192.0.2.2', sent);
  for (const answer of pending.splice(0)) answer();
  await until(() => isServed('a', '192.0.2.1'), 'room');
  const small = { path: '/decode', body: Buffer.from(`[${'{},'.repeat(300)}1]`) };
  await hold(20, 'a', '192.0.2.1', small);
});

test('a body beyond the limit of one request gets 413', async () => {
  assert.is((await send('a', '192.0.2.1', { body: Buffer.alloc(MAX_BODY_BYTES + 1) })).status, 413);
});

/** Sends most of a body, and disconnects. */
function breakOff(): Promise<void> {
  return new Promise((resolve) => {
    const headers = {
      apikey: tenants.get('a')?.anonKey as string,
      'x-forwarded-for': '192.0.2.1',
      'content-length': LARGE.length,
    };
    const sent = request(`${url}/p/a/rest/v1/now`, { method: 'POST', headers, agent: false });
    sent.on('error', () => undefined).once('close', resolve);
    sent.write(LARGE.subarray(1), () => sent.destroy());
  });
}

test.run();
