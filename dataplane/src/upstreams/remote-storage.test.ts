/**
 * Tests two gateways with two pods of storage, each with its own folder, over a project with a real database, as on a
 * cluster.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { podOf } from '@slipway/installation';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../gateway/server.js';
import type { BackendTenant } from '../projects/tenant.js';
import type { Service } from '../services/service.js';
import { createStorageService } from '../services/storage/index.js';
import { startTestCluster, type TestCluster } from '../testing/project.js';
import { createManagement } from './management.js';
import { createRemoteService } from './remote.js';

const PUBLIC_URL = 'http://slipway.test';
/** Bytes of a large upload: more than a request to any other service may have. */
const LARGE = 60 * 1024 * 1024;
const log = pino({ level: 'silent' });
const closings: (() => Promise<unknown>)[] = [];
let cluster: TestCluster;
let tenant: BackendTenant;
let gateways: string[];
let pods: string[];

async function serve(storage: Service): Promise<string> {
  const server: Server = createGateway({
    publicUrl: PUBLIC_URL,
    tenant: (ref) => (ref === tenant.ref ? tenant : undefined),
    complete: () => true,
    services: { storage },
    behindIngress: true,
    rateLimit: 0,
    management: createManagement(undefined, PUBLIC_URL),
    log,
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closings.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await storage.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function pod(): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'slipway-storage-'));
  closings.unshift(() => rm(directory, { recursive: true, force: true }));
  return serve(createStorageService({ directory, log }));
}

test.before(async () => {
  cluster = await startTestCluster();
  tenant = { ...(await cluster.project('files')), url: 'http://files.slipway.test' };
  pods = [await pod(), await pod()];
  const gateway = () => serve(createRemoteService({ service: 'storage', urls: pods }));
  gateways = [await gateway(), await gateway()];
  const made = await ask(0, 'POST', '/storage/v1/bucket', {}, JSON.stringify({ name: 'b', public: true }), JSON_TYPE);
  assert.is(made.status, 200, await made.text());
});
test.after(async () => {
  for (const close of closings.reverse()) await close();
  await cluster?.close();
});

const JSON_TYPE = { 'content-type': 'application/json' };

const ask = (
  gateway: number,
  method: string,
  place: string,
  headers: Record<string, string> = {},
  body?: string | Buffer,
  more: Record<string, string> = {},
) =>
  fetch(`${gateways[gateway]}/p/files${place}`, {
    method,
    headers: { apikey: tenant.serviceRoleKey, ...headers, ...more },
    ...(body === undefined ? {} : { body }),
  });

test('a file of any size that one gateway received can be read through the other, and is in only one pod', async () => {
  const bytes = randomBytes(LARGE);
  const put = await ask(0, 'POST', '/storage/v1/object/b/large.bin', { 'content-type': 'x/large' }, bytes);
  assert.is(put.status, 200, await put.text());
  const got = await fetch(`${gateways[1]}/p/files/storage/v1/object/public/b/large.bin`);
  assert.is(got.headers.get('content-type'), 'x/large');
  assert.ok(Buffer.from(await got.arrayBuffer()).equals(bytes));
  const its = podOf('files', pods);
  for (const at of pods) {
    const { status } = await fetch(`${at}/p/files/storage/v1/object/public/b/large.bin`);
    assert.is(status === 200, at === its);
  }
});

test('a resumable upload continues through another gateway at the same URL', async () => {
  const tus = { 'tus-resumable': '1.0.0' };
  const named = ['bucketName', 'b', 'objectName', 'parts.bin'];
  const metadata = [0, 2].map((at) => `${named[at]} ${Buffer.from(named[at + 1] as string).toString('base64')}`).join();
  const begun = await ask(0, 'POST', '/storage/v1/upload/resumable', {
    ...tus,
    'upload-length': '6',
    'upload-metadata': metadata,
  });
  assert.is(begun.status, 201, await begun.text());
  const place = begun.headers.get('location') as string;
  assert.match(place, /^\/storage\/v1\/upload\/resumable\/[0-9a-f-]+$/);
  for (const [gateway, offset, text] of [
    [1, 0, 'abc'],
    [0, 3, 'def'],
  ] as const) {
    const type = 'application/offset+octet-stream';
    const patched = await ask(
      gateway,
      'PATCH',
      place,
      { ...tus, 'upload-offset': String(offset), 'content-type': type },
      text,
    );
    assert.is(patched.status, 204, await patched.text());
  }
  const whole = await ask(1, 'GET', '/storage/v1/object/b/parts.bin');
  assert.is(await whole.text(), 'abcdef');
});

test('a request without a key is rejected with the pod’s error, and pages of any origin may read it', async () => {
  const refused = await fetch(`${gateways[0]}/p/files/storage/v1/object/b/large.bin`, {
    headers: { origin: 'https://app.example.com' },
  });
  assert.is(refused.status, 401);
  assert.is(refused.headers.get('access-control-allow-origin'), '*');
  await refused.text();
});

test.run();
