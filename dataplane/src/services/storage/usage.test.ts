/** Tests the quota of a project's files, for every way of writing bytes. */
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { STORAGE_BYTES } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { BackendTenant } from '../../projects/tenant.js';
import { DiskReserve } from './disk-reserve.js';
import { type StorageHarness, type StorageProject, startStorageHarness } from './testing.js';
import { StorageUsage } from './usage.js';

const QUOTA = 1_000_000;
const quotas = { ...STORAGE_BYTES, free: QUOTA };
let isDiskFull = false;
const statfs = async () => ({ bavail: isDiskFull ? 1 : 1e6, bsize: 4096, blocks: 1e6 });
let harness: StorageHarness;
let refs = 0;

test.before(async () => {
  harness = await startStorageHarness({ quotas, statfs: statfs as never });
});
test.after(() => harness?.close());

/** Creates a project with an empty bucket `b`. */
async function newProject(): Promise<StorageProject> {
  const project = await harness.project(`full${++refs}`);
  await (await project.client()).createBucket('b');
  return project;
}

const body = (bytes: number) => 'x'.repeat(bytes);
const put = (project: StorageProject, name: string, bytes: number) =>
  project.fetch(`/object/b/${name}`, { method: 'POST', body: body(bytes) }).then(({ status }) => status);

/** Sends a body without a length. */
async function putChunked(project: StorageProject, name: string, bytes: number): Promise<number> {
  const source = Readable.toWeb(Readable.from([body(bytes / 2), body(bytes / 2)]));
  const init = { method: 'POST', body: source as ReadableStream, duplex: 'half' } as RequestInit;
  return (await project.fetch(`/object/b/${name}`, init)).status;
}

async function putForm(project: StorageProject, name: string, bytes: number): Promise<number> {
  const form = new FormData();
  form.set('file', new Blob([body(bytes)]));
  return (await project.fetch(`/object/b/${name}`, { method: 'POST', body: form })).status;
}

for (const [what, send] of Object.entries({ 'a body': put, 'a stream': putChunked, 'a form': putForm })) {
  test(`${what} beyond the quota gets 507 and leaves no file, and deleting makes room`, async () => {
    const project = await newProject();
    assert.is(await send(project, 'a', 600_000), 200);
    assert.is(await send(project, 'b', 600_000), 507);
    assert.is(await send(project, 'c', 400_000), 200);
    assert.is(await send(project, 'd', 2), 507);
    const client = await project.client();
    assert.is((await client.from('b').remove(['a'])).error, null);
    assert.is(await send(project, 'e', 600_000), 200);
    assert.equal(
      (await client.from('b').list()).data?.map(({ name }) => name),
      ['c', 'e'],
    );
  });
}

for (const [what, send] of Object.entries({ bodies: put, streams: putChunked })) {
  test(`${what} that run concurrently cannot exceed the quota together`, async () => {
    const project = await newProject();
    const sent = await Promise.all(Array.from({ length: 30 }, (_, n) => send(project, `o${n}`, 100_000)));
    const stored = sent.filter((status) => status === 200).length;
    assert.ok(stored <= 10 && stored > 0, `${stored} were stored`);
    assert.ok(sent.every((status) => status === 200 || status === 507));
  });
}

test('a copy counts as much as its source’s content, whatever the row’s size', async () => {
  const project = await newProject();
  assert.is(await put(project, 'a', 400_000), 200);
  await project.sql(`update storage.objects set metadata = metadata || '{"size": 0}'`);
  const client = await project.client();
  assert.is((await client.from('b').copy('a', 'b')).error, null);
  assert.match((await client.from('b').copy('a', 'c')).error?.message ?? 'copied', /exceed the quota of its plan/);
});

test('a resumable upload reserves its length at its start, and releases it when the upload ends', async () => {
  const project = await newProject();
  const metadata = (name: string) =>
    `bucketName ${btoa('b')},objectName ${btoa(name)},contentType ${btoa('text/plain')}`;
  const begin = (name: string, more: Record<string, string>) =>
    project.fetch('/upload/resumable', {
      method: 'POST',
      headers: { 'Tus-Resumable': '1.0.0', 'Upload-Metadata': metadata(name), ...more },
    });
  const begun = await begin('a', { 'Upload-Length': '700000' });
  assert.is(begun.status, 201);
  assert.is((await begin('b', { 'Upload-Length': '700000' })).status, 507);
  assert.is(await put(project, 'c', 400_000), 507);
  const at = (response: Response) => new URL(response.headers.get('location') as string, harness.url).href;
  const tus = { 'Tus-Resumable': '1.0.0', apikey: project.serviceRoleKey };
  assert.is((await fetch(at(begun), { method: 'DELETE', headers: tus })).status, 204);
  assert.is(await put(project, 'c', 400_000), 200);
  const unknown = await begin('d', { 'Upload-Defer-Length': '1' });
  assert.is(unknown.status, 201);
  const patch = { ...tus, 'Upload-Offset': '0', 'Content-Type': 'application/offset+octet-stream' };
  const sent = await fetch(at(unknown), { method: 'PATCH', headers: patch, body: body(700_000) });
  assert.is(sent.status, 507);
});

test('the service_role key can read usage and quota, and the anon key cannot', async () => {
  const project = await newProject();
  await put(project, 'a', 1234);
  const status = async (apikey: string) =>
    (await fetch(`${project.storageUrl}/status`, { headers: { apikey } })).json() as Promise<object>;
  assert.equal(await status(project.serviceRoleKey), { status: 'ok', usage: { used: 1234, limit: QUOTA } });
  assert.equal(await status(project.anonKey), { status: 'ok' });
});

test('an upload to a disk with only the reserve free is rejected, and objects can be deleted', async () => {
  const project = await newProject();
  assert.is(await put(project, 'a', 10), 200);
  isDiskFull = true;
  try {
    let status = 200;
    while (status === 200) status = await put(project, randomUUID(), 10);
    assert.is(status, 507);
    assert.is((await project.fetch('/object/b/a', { method: 'DELETE' })).status, 200);
  } finally {
    isDiskFull = false;
  }
});

const tenantOf = (ref: string, account: string) => ({ ref, plan: 'free', authenticator: { account } }) as BackendTenant;

test('the projects of an account together may have four times the quota of its largest plan', async () => {
  const disk = new DiskReserve('/');
  const usage = new StorageUsage(async () => QUOTA - 100, disk, quotas);
  const [last, stranger] = [tenantOf('p5', 'ann'), tenantOf('q', 'bob')];
  for (const ref of ['p1', 'p2', 'p3', 'p4']) await usage.refresh(tenantOf(ref, 'ann'));
  await (await usage.reserve(stranger, 100)).release();
  const refused = await usage.reserve(last, 100).catch((error: { status: number }) => error.status);
  assert.is(refused, 507);
});

test.run();
