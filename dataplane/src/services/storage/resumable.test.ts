import { randomBytes, randomUUID } from 'node:crypto';
import { readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pino } from 'pino';
import { Upload } from 'tus-js-client';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PARTIAL_LIFE_MS, PARTIALS, removeExpired } from './partial-uploads.js';
import { type StorageHarness, type StorageProject, startStorageHarness } from './testing.js';

let harness: StorageHarness;
let project: StorageProject;
const logged: { requestId: string; err: { message: string } }[] = [];
const AL = randomUUID();
const BO = randomUUID();

test.before(async () => {
  const log = pino({ level: 'warn' }, { write: (line: string) => void logged.push(JSON.parse(line)) });
  harness = await startStorageHarness({ log });
  project = await harness.project('parts');
  await project.sql(`
    insert into storage.buckets (id, name, public, file_size_limit) values ('parts', 'parts', true, 3000000);
    create policy own on storage.objects to authenticated using (owner_id = auth.uid()::text)
      with check ((storage.foldername(name))[1] = auth.uid()::text);`);
});

test.after(() => harness?.close());

interface TusRequest {
  token: string;
  name: string;
  headers?: Record<string, string>;
  path?: string;
  chunkSize?: number;
  uploadDataDuringCreation?: boolean;
}

/** Resolves to the upload's URL when it is complete. */
function sent(
  bytes: Buffer,
  { token, name, headers = {}, path = '', chunkSize = 500_000, uploadDataDuringCreation = false }: TusRequest,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const upload = new Upload(bytes, {
      endpoint: `${project.storageUrl}/upload/resumable${path}`,
      headers: { apikey: project.anonKey, ...(token ? { authorization: `Bearer ${token}` } : {}), ...headers },
      metadata: {
        bucketName: 'parts',
        objectName: name,
        contentType: 'text/x-parts',
        cacheControl: '77',
        metadata: '{"k":1}',
      },
      chunkSize,
      uploadDataDuringCreation,
      retryDelays: [],
      onSuccess: () => resolve(upload.url as string),
      onError: reject,
    });
    upload.start();
  });
}

test('tus-js-client uploads in parts, and creates an ordinary object', async () => {
  const bytes = randomBytes(1_700_000);
  await sent(bytes, { token: await project.token(AL), name: `${AL}/a.bin` });
  const bucket = (await project.client(AL)).from('parts');
  const { data } = await bucket.download(`${AL}/a.bin`);
  assert.ok(Buffer.from(await (data as Blob).arrayBuffer()).equals(bytes));
  const { data: info } = await bucket.info(`${AL}/a.bin`);
  assert.equal(
    [info?.size, info?.contentType, info?.cacheControl, info?.metadata],
    [1_700_000, 'text/x-parts', 'max-age=77', { k: 1 }],
  );
  const [row] = await project.sql(`select owner_id from storage.objects where name = '${AL}/a.bin'`);
  assert.is(row?.owner_id, AL);
});

const metadataOf = (name: string) =>
  Object.entries({ bucketName: 'parts', objectName: name })
    .map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`)
    .join(',');

const tus = async (sub: string, method: string, url: string, headers: Record<string, string> = {}, body?: Buffer) =>
  fetch(url, {
    method,
    headers: {
      'tus-resumable': '1.0.0',
      apikey: project.anonKey,
      authorization: `Bearer ${await project.token(sub)}`,
      ...(body ? { 'content-type': 'application/offset+octet-stream' } : {}),
      ...headers,
    },
    ...(body ? { body } : {}),
  });

async function begun(
  name: string,
  length: number,
  headers = {},
): Promise<{ status: number; url: string; text: string }> {
  const answer = await tus(AL, 'POST', `${project.storageUrl}/upload/resumable`, {
    'upload-length': String(length),
    'upload-metadata': metadataOf(name),
    ...headers,
  });
  const text = await answer.text();
  return { status: answer.status, url: new URL(answer.headers.get('location') ?? '/', harness.url).href, text };
}

test('an interrupted upload continues from its received bytes, and is invisible until it is complete', async () => {
  const { url } = await begun(`${AL}/broken.bin`, 10);
  assert.is((await tus(AL, 'PATCH', url, { 'upload-offset': '0' }, Buffer.from('01234'))).status, 204);
  assert.is((await (await project.client()).from('parts').exists(`${AL}/broken.bin`)).data, false);
  const head = await tus(AL, 'HEAD', url);
  assert.equal([head.status, head.headers.get('upload-offset')], [200, '5']);
  assert.is((await tus(AL, 'PATCH', url, { 'upload-offset': '3' }, Buffer.from('x'))).status, 409);
  assert.is((await tus(AL, 'PATCH', url, { 'upload-offset': '5' }, Buffer.from('56789'))).status, 204);
  const { data } = await (await project.client(AL)).from('parts').download(`${AL}/broken.bin`);
  assert.is(await data?.text(), '0123456789');
});

test('an upload with data in its creation request becomes an object once it is complete', async () => {
  const token = await project.token(AL);
  for (const [name, size] of [
    ['at-once', 300_000],
    ['begun-at-once', 700_000],
    ['empty', 0],
  ] as const) {
    const bytes = randomBytes(size);
    await sent(bytes, { token, name: `${AL}/${name}`, uploadDataDuringCreation: true });
    const { data } = await (await project.client(AL)).from('parts').download(`${AL}/${name}`);
    assert.ok(Buffer.from(await (data as Blob).arrayBuffer()).equals(bytes), name);
  }
});

const WHOLE = { 'upload-offset': '10' };

test('a HEAD reports an upload as complete when the response of its last PATCH was lost', async () => {
  const { url } = await begun(`${AL}/unheard.bin`, 10);
  assert.is((await tus(AL, 'PATCH', url, { 'upload-offset': '0' }, Buffer.from('0123456789'))).status, 204);
  const head = await tus(AL, 'HEAD', url);
  assert.equal([head.status, head.headers.get('upload-offset'), head.headers.get('upload-length')], [200, '10', '10']);
  assert.is((await tus(AL, 'PATCH', url, { 'upload-offset': '0' }, Buffer.from('0123456789'))).status, 409);
  assert.is((await tus(AL, 'PATCH', url, { ...WHOLE, 'content-type': 'application/offset+octet-stream' })).status, 204);
  assert.is((await tus(BO, 'HEAD', url)).status, 404);
  assert.is((await tus(AL, 'DELETE', url)).status, 204);
  assert.is((await tus(AL, 'HEAD', url)).status, 404);
  const { data } = await (await project.client(AL)).from('parts').download(`${AL}/unheard.bin`);
  assert.is(await data?.text(), '0123456789');
});

test('an upload whose object was deleted returns 404, and its client sends the file again', async () => {
  const { url } = await begun(`${AL}/removed.bin`, 10);
  assert.is((await tus(AL, 'PATCH', url, { 'upload-offset': '0' }, Buffer.from('0123456789'))).status, 204);
  assert.is((await tus(AL, 'HEAD', url)).status, 200);
  const { error } = await (await project.client(AL)).from('parts').remove([`${AL}/removed.bin`]);
  assert.is(error, null);
  assert.is((await tus(AL, 'HEAD', url)).status, 404);
});

test('a HEAD reports a complete upload for a day', async () => {
  const { url } = await begun(`${AL}/remembered.bin`, 10);
  assert.is((await tus(AL, 'PATCH', url, { 'upload-offset': '0' }, Buffer.from('0123456789'))).status, 204);
  const folder = path.join(harness.directory, project.ref);
  await removeExpired(folder, Date.now() + PARTIAL_LIFE_MS - 60_000);
  assert.is((await tus(AL, 'HEAD', url)).status, 200);
  await removeExpired(folder, Date.now() + PARTIAL_LIFE_MS + 60_000);
  assert.is((await tus(AL, 'HEAD', url)).status, 404);
});

test('an upload that is rejected when it is complete gets the reason, and leaves no file', async () => {
  const folder = path.join(harness.directory, project.ref);
  const files = async () =>
    (await readdir(folder, { recursive: true, withFileTypes: true })).filter((file) => file.isFile()).length;
  const before = await files();
  const { url } = await begun(`${AL}/refused.bin`, 10);
  await project.sql('alter policy own on storage.objects with check (false)');
  try {
    assert.is((await tus(AL, 'PATCH', url, { 'upload-offset': '0' }, Buffer.from('0123456789'))).status, 403);
    assert.is(await files(), before);
    assert.is((await tus(AL, 'HEAD', url)).status, 404);
  } finally {
    await project.sql(
      'alter policy own on storage.objects with check ((storage.foldername(name))[1] = auth.uid()::text)',
    );
  }
});

test('only the user who began an upload may read, continue or end it', async () => {
  const { url } = await begun(`${AL}/mine.bin`, 10);
  for (const [method, headers, body] of [
    ['HEAD', {}, undefined],
    ['PATCH', { 'upload-offset': '0' }, Buffer.from('x')],
    ['DELETE', {}, undefined],
  ] as const) {
    assert.is((await tus(BO, method, url, headers, body)).status, 404, method);
  }
  assert.is((await tus(AL, 'HEAD', url)).status, 200);
  assert.is((await tus(AL, 'DELETE', url)).status, 204);
  assert.is((await tus(AL, 'HEAD', url)).status, 404);
});

test('policies, limits and names are checked at the start of an upload', async () => {
  assert.is((await begun(`${BO}/x`, 10)).status, 403);
  assert.is((await begun(`${AL}/x`, 3_000_001)).status, 413);
  assert.is((await begun(`${AL}/../x`, 10)).status, 400);
  assert.is((await begun(`${AL}/a.bin`, 10)).status, 409);
  assert.is((await begun(`${AL}/a.bin`, 10, { 'x-upsert': 'true' })).status, 201);
});

test('an internal failure is logged with its cause, and the client gets a generic message', async () => {
  const folder = path.join(harness.directory, project.ref, PARTIALS);
  await rename(folder, `${folder}.away`);
  await writeFile(folder, 'no folder');
  try {
    const answer = await tus(AL, 'POST', `${project.storageUrl}/upload/resumable`, {
      'upload-length': '10',
      'upload-metadata': metadataOf(`${AL}/fails.bin`),
    });
    assert.equal([answer.status, await answer.text()], [500, 'Something went wrong with that request\n']);
    const requestId = answer.headers.get('x-request-id');
    const [entry] = logged.filter((each) => each.requestId === requestId);
    assert.match(entry?.err.message as string, folder);
  } finally {
    await rm(folder);
    await rename(`${folder}.away`, folder);
  }
});

test('an upload id that is a path returns 404', async () => {
  for (const id of ['..%2f..%2fetc%2fpasswd', '%2e%2e', 'x', `${randomUUID()}.json`, 'sign']) {
    const { status } = await tus(AL, 'HEAD', `${project.storageUrl}/upload/resumable/${id}`);
    assert.ok([400, 403, 404].includes(status), `${id} ${status}`);
  }
});

test('a signed upload needs no user, and allows only one name', async () => {
  const { data } = await (await project.client(AL)).from('parts').createSignedUploadUrl(`${AL}/signed.bin`);
  const headers = { 'x-signature': data?.token as string };
  await sent(Buffer.from('signed'), { token: '', name: `${AL}/signed.bin`, path: '/sign', headers });
  const [row] = await project.sql(`select owner_id from storage.objects where name = '${AL}/signed.bin'`);
  assert.is(row?.owner_id, AL);
  const other = sent(Buffer.from('x'), { token: '', name: `${AL}/other.bin`, path: '/sign', headers });
  assert.is(await other.catch(() => 'refused'), 'refused');
});

test.run();
