import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdir, stat, utimes } from 'node:fs/promises';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import path from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { ReadableStream } from 'node:stream/web';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PARTIAL_LIFE_MS, PARTIALS } from './partial-uploads.js';
import { type StorageHarness, type StorageProject, startStorageHarness } from './testing.js';

let harness: StorageHarness;
let project: StorageProject;
let other: StorageProject;
/** Storage behind a gateway whose timeouts are short. */
let impatient: StorageHarness;

test.before(async () => {
  harness = await startStorageHarness({ limits: { openUploads: 2, openUploadBytes: 1000, uploadsAtOnce: 2 } });
  [project, other] = [await harness.project('bounded'), await harness.project('other')];
  impatient = await startStorageHarness(
    { limits: { openUploads: 2, uploadsAtOnce: 1 } },
    { stillMilliseconds: 200, checkMilliseconds: 50 },
  );
  for (const each of [project, other]) await (await each.client()).createBucket('files');
});

test.after(async () => {
  await harness?.close();
  await impatient?.close();
});

const resumable = (of: StorageProject, method: string, url: string, headers: Record<string, string> = {}) =>
  fetch(url, {
    method,
    headers: { 'tus-resumable': '1.0.0', apikey: of.serviceRoleKey, ...headers },
  });

const metadata = (name: string) =>
  Object.entries({ bucketName: 'files', objectName: name })
    .map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`)
    .join(',');

interface Begun {
  status: number;
  url: string;
  text: string;
}

async function begun(name: string, of = project): Promise<Begun> {
  const headers = { 'upload-length': '10', 'upload-metadata': metadata(name) };
  const answer = await resumable(of, 'POST', `${of.storageUrl}/upload/resumable`, headers);
  const url = new URL(answer.headers.get('location') ?? '/', harness.url).href;
  return { status: answer.status, url, text: await answer.text() };
}

test('a project has a limit of open resumable uploads, and one that ends or expires frees its place', async () => {
  // Four concurrent ones, which could each count before the others.
  const four = await Promise.all(['a', 'b', 'c', 'd'].map((name) => begunWhenFree(name)));
  const statuses = four.map(({ status }) => status).sort();
  assert.equal(statuses, [201, 201, 429, 429]);
  const refused = four.find(({ status }) => status === 429);
  assert.match(refused?.text ?? '', /reached its limit of 2 open resumable uploads \(openUploads\)/);
  assert.is((await begun('theirs', other)).status, 201);

  const [first, second] = four.filter(({ status }) => status === 201) as [Begun, Begun];
  assert.is((await resumable(project, 'DELETE', first.url)).status, 204);
  assert.is((await begun('after one ended')).status, 201);
  assert.is((await begun('too many again')).status, 429);

  const folder = path.join(harness.directory, project.ref, PARTIALS);
  const id = second.url.split('/').at(-1) as string;
  const before = (Date.now() - PARTIAL_LIFE_MS) / 1000 - 1;
  for (const name of [id, `${id}.json`]) await utimes(path.join(folder, name), before, before);
  assert.is((await begun('after one expired')).status, 201);
  assert.is((await resumable(project, 'HEAD', second.url)).status, 404);
  assert.not.ok((await readdir(folder)).some((name) => name.startsWith(id)));
});

/** Starts an upload in a project's bucket, without a length if that is deferred. */
function beginning(
  of: StorageProject,
  name: string,
  length?: number,
  body?: string | ReadableStream,
): Promise<Response> {
  return fetch(`${of.storageUrl}/upload/resumable`, {
    method: 'POST',
    headers: {
      'tus-resumable': '1.0.0',
      apikey: of.serviceRoleKey,
      'upload-metadata': metadata(name),
      ...(length === undefined ? { 'upload-defer-length': '1' } : { 'upload-length': String(length) }),
      ...(body === undefined ? {} : { 'content-type': 'application/offset+octet-stream' }),
    },
    ...(body === undefined ? {} : { body, duplex: 'half' }),
  });
}

const idsIn = async (folder: string) => (await readdir(folder)).filter((name) => !name.includes('.'));

test('a project’s open resumable uploads have a limit of bytes together', async () => {
  const heavy = await harness.project('heavy');
  await heavy.sql(`insert into storage.buckets (id, name, file_size_limit) values ('files', 'files', 700)`);
  const first = await beginning(heavy, 'first', 600);
  assert.is(first.status, 201);
  const refused = await beginning(heavy, 'second', 401);
  assert.is(refused.status, 429);
  assert.match(await refused.text(), /exceed their limit of 1000 bytes \(openUploadBytes\)/);
  assert.is((await beginning(heavy, 'third', 400)).status, 201);
  const url = new URL(first.headers.get('location') as string, harness.url).href;
  assert.is((await resumable(heavy, 'DELETE', url)).status, 204);

  // An upload of unknown length counts as much as its bucket allows.
  assert.is((await beginning(heavy, 'too much')).status, 429);
  await heavy.sql('update storage.buckets set file_size_limit = 600');
  assert.is((await beginning(heavy, 'enough')).status, 201);
});

test('an upload with a deferred length must fit its bucket’s limit', async () => {
  const strict = await harness.project('strict');
  await strict.sql(`insert into storage.buckets (id, name, file_size_limit) values ('files', 'files', 10)`);
  const folder = path.join(harness.directory, strict.ref, PARTIALS);
  assert.is((await beginning(strict, 'over', undefined, '0123456789x')).status, 413);
  const pieces = Readable.from(
    (async function* () {
      yield Buffer.from('0123456789');
      const written = async () => (await stat(path.join(folder, (await idsIn(folder))[0] ?? ''))).size === 10;
      await until(written, 'what is allowed');
      yield Buffer.from('x');
    })(),
  );
  assert.is((await beginning(strict, 'piece by piece', undefined, Readable.toWeb(pieces))).status, 413);
  assert.equal(await readdir(folder), []);

  const within = await beginning(strict, 'within', undefined, '01234');
  assert.is(within.status, 201);
  const url = new URL(within.headers.get('location') as string, harness.url).href;
  const patch = (offset: number, body: string, headers = {}) =>
    fetch(url, {
      method: 'PATCH',
      headers: {
        'tus-resumable': '1.0.0',
        apikey: strict.serviceRoleKey,
        'content-type': 'application/offset+octet-stream',
        'upload-offset': String(offset),
        ...headers,
      },
      body,
    });
  assert.is((await patch(5, '56789x')).status, 413);
  assert.is((await patch(5, '56789', { 'upload-length': '10' })).status, 204);
  assert.is(await (await strict.fetch('/object/files/within')).text(), '0123456789');
});

/** Tests the limit of open uploads, not that of concurrent ones. */
async function begunWhenFree(name: string): Promise<Begun> {
  for (;;) {
    const answer = await begun(name);
    if (!answer.text.includes('uploadsAtOnce')) return answer;
  }
}

interface Slow {
  sent: ClientRequest;
  answered: Promise<IncomingMessage>;
}

/** Announces ten bytes and sends five of them, until it is ended. */
function slowUpload(name: string, of = project, apikey = of.serviceRoleKey): Slow {
  const sent = request(`${of.storageUrl}/object/files/${name}`, {
    method: 'POST',
    headers: { apikey, 'content-type': 'text/plain', 'content-length': '10' },
  });
  sent.write('01234');
  const answered = once(sent, 'response').then(([answer]) => answer as IncomingMessage);
  // Handles the rejection if a test fails before the response.
  sent.on('error', () => undefined);
  answered.catch(() => undefined);
  return { sent, answered };
}

/** Resolves once `count` uploads are being received. */
async function received(count: number): Promise<void> {
  const folder = path.join(harness.directory, project.ref, 'tmp');
  while ((await readdir(folder).catch(() => [])).length < count);
}

const quickUpload = (of: StorageProject) =>
  of.fetch('/object/files/quick', { method: 'PUT', headers: { 'content-type': 'text/plain' }, body: 'x' });

test('slow uploads of a project delay only its own uploads, which get 429 with Retry-After', async () => {
  const slow = [slowUpload('slow-1'), slowUpload('slow-2')];
  try {
    await received(slow.length);
    const refused = await quickUpload(project);
    assert.is(refused.status, 429);
    assert.is(refused.headers.get('retry-after'), '5');
    assert.match(
      ((await refused.json()) as { message: string }).message,
      /limit of 2 concurrent uploads \(uploadsAtOnce\)/,
    );
    const form = new FormData();
    form.set('file', new Blob(['x']));
    assert.is((await project.fetch('/object/files/form', { method: 'POST', body: form })).status, 429);
    assert.is((await begun('of parts')).status, 429);
    assert.is((await quickUpload(other)).status, 200);

    for (const { sent, answered } of slow) {
      sent.end('56789');
      const answer = await answered;
      assert.is(answer.statusCode, 200, await text(answer));
    }
    assert.is((await quickUpload(project)).status, 200);
  } finally {
    for (const { sent } of slow) sent.destroy();
  }
});

test('an upload that disconnects frees its place', async () => {
  for (let count = 0; count < 5; count++) {
    const { sent } = slowUpload(`broken-${count}`);
    await once(sent, 'socket');
    sent.destroy();
  }
  await until(() => hasPlace(project), 'a place');
});

const hasPlace = async (of: StorageProject) => (await quickUpload(of)).status === 200;

const hasNoTemporary = async (of: StorageProject, { directory } = harness) =>
  (await readdir(path.join(directory, of.ref, 'tmp'))).length === 0;

test('a part of a resumable upload that disconnects frees its place', async () => {
  const { status, url } = await begun('parts', other);
  assert.is(status, 201);
  const file = path.join(harness.directory, other.ref, PARTIALS, url.split('/').at(-1) as string);
  for (let offset = 0; offset < 4; offset++) {
    const sent = request(url, {
      method: 'PATCH',
      headers: {
        'tus-resumable': '1.0.0',
        apikey: other.serviceRoleKey,
        'content-type': 'application/offset+octet-stream',
        'content-length': '5',
        'upload-offset': String(offset),
      },
    }).on('error', () => undefined);
    sent.write('x');
    await until(async () => (await stat(file)).size > offset, 'more of it');
    sent.destroy();
  }
  await until(() => hasPlace(other), 'a place');
});

test('an upload that stalls too long frees its place and leaves no file', async () => {
  const still = await impatient.project('still');
  await still.sql(`insert into storage.buckets (id, name) values ('files', 'files')`);
  for (const name of ['one', 'two']) {
    const { sent, answered } = slowUpload(name, still);
    assert.is((await answered).statusCode, 408);
    await once(sent, 'close');
    await until(() => hasPlace(still), 'a place');
  }
  await until(() => hasNoTemporary(still, impatient), 'what was begun to be removed');
});

test('a form whose client disconnects before its last bytes are read leaves no file and frees its place', async () => {
  const { hostname, port, pathname } = new URL(other.storageUrl);
  for (const bytes of [180_000, 260_000, 180_000, 260_000]) {
    const disposition = 'Content-Disposition: form-data; name="file"; filename="f"';
    const form = `--b\r\n${disposition}\r\n\r\n${'x'.repeat(bytes)}\r\n--b--\r\n`;
    const head =
      `POST ${pathname}/object/files/form-${randomUUID()} HTTP/1.1\r\nHost: x\r\napikey: ${other.serviceRoleKey}\r\n` +
      `Content-Type: multipart/form-data; boundary=b\r\nContent-Length: ${form.length}\r\n\r\n`;
    const socket = connect(Number(port), hostname).on('error', () => undefined);
    socket.end(head + form, () => socket.destroy());
    await once(socket, 'close');
    await until(() => hasPlace(other), 'a place');
  }
  await until(() => hasNoTemporary(other), 'what was begun to be removed');
});

test('a slow sender without permission is rejected early, and a slow sender with permission is not', async () => {
  const allowed = slowUpload('allowed');
  const refused = slowUpload('refused', project, project.anonKey);
  try {
    const answer = await refused.answered;
    assert.is((JSON.parse(await text(answer)) as { statusCode: string }).statusCode, '403');
    await until(() => hasPlace(project), 'a place');
    allowed.sent.end('56789');
    assert.is((await allowed.answered).statusCode, 200);
    await until(() => hasNoTemporary(project), 'what was begun to be removed');
  } finally {
    for (const { sent } of [allowed, refused]) sent.destroy();
  }
});

test('a rejected upload leaves no file, whether its bytes arrived before the check or not', async () => {
  const client = await project.client();
  await client.createBucket('tiny', { public: false, fileSizeLimit: 10, allowedMimeTypes: ['text/*'] });
  const folder = path.join(harness.directory, project.ref);
  const files = async () =>
    (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile()).length;
  const before = await files();
  const asAnybody = { apikey: project.anonKey };
  for (const [name, body, status, headers] of [
    ['tiny/long', 'x'.repeat(11), '413', {}],
    ['tiny/longer', 'x'.repeat(2_000_000), '413', {}],
    ['tiny/another-type', 'x', '415', { 'content-type': 'image/png' }],
    ['tiny/not-allowed', 'x', '403', asAnybody],
    ['tiny/not-allowed-nor-fitting', 'x'.repeat(11), '403', asAnybody],
    ['files/not-allowed', 'x'.repeat(2_000_000), '403', asAnybody],
    ['nowhere/x', 'x', '404', {}],
    ['files/quick', 'x', '409', {}],
  ] as const) {
    const answer = await project.fetch(`/object/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'text/plain', ...headers },
      body,
    });
    assert.is(((await answer.json()) as { statusCode: string }).statusCode, status, name);
  }
  assert.is(await files(), before);
});

test('a trigger of the owner that raises PT200 does not change the limits of uploads', async () => {
  const big = (await harness.project('large-rules')) as StorageProject;
  await (await big.client()).createBucket('files', { public: false, fileSizeLimit: 10 });
  for (const message of ['{"file_size_limit":"x"}', '{"allowed_mime_types":"x"}', '{}', 'null', '[', '']) {
    await big.sql(`create or replace function public.pretend() returns trigger language plpgsql as $$ begin
      if new.version = '' then raise sqlstate 'PT200' using message = '${message}'; end if; return new; end $$;
      create or replace trigger pretend before insert on storage.objects for each row
        execute function public.pretend()`);
    // Without a length the bucket's rules are checked first.
    const sent = await big.fetch('/object/files/large', {
      method: 'POST',
      headers: { 'content-type': 'text/plain' },
      body: new Blob(['x'.repeat(2_000_000)]).stream(),
      duplex: 'half',
    } as RequestInit);
    assert.is(sent.status, 400, `${message}: ${await sent.text()}`);
  }
  assert.equal(await big.sql('select 1 from storage.objects'), []);
});

test.run();
