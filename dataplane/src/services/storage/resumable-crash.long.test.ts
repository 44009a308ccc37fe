import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat, utimes } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freePort, until } from '@slipway/testing';
import pg from 'pg';
import { pino } from 'pino';
import S3rver from 's3rver';
import { Upload } from 'tus-js-client';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestCluster, type TestCluster, type TestProject } from '../../testing/project.js';
import { type Served, serve } from './child.testing.js';
import { collect } from './collect.js';
import { FileStore } from './content/files.js';
import { storageDatabases } from './database.js';
import { PARTIALS } from './partial-uploads.js';
import type { Death } from './served.testing.js';

const S3_KEYS = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' };
const DAY = 24 * 3600 * 1000;
let cluster: TestCluster;
let project: TestProject;
let directory: string;
let served: Served;
let owner: pg.Client;
const databases = storageDatabases();

test.before(async () => {
  cluster = await startTestCluster();
  project = await cluster.project('crash');
  directory = await mkdtemp(path.join(tmpdir(), 'slipway-resumable-crash-'));
  served = await serve({ tenant: project, directory });
  const made = await ask(
    served,
    'POST',
    '/bucket',
    { 'content-type': 'application/json' },
    '{"name":"b","public":true}',
  );
  assert.is(made.status, 200);
  owner = new pg.Client(project.owner);
  await owner.connect();
});

test.after(async () => {
  served?.child.kill();
  await owner?.end();
  await databases.close();
  await cluster?.close();
  await rm(directory, { recursive: true, force: true });
});

const addressOf = ({ port }: Served) => `http://127.0.0.1:${port}/p/crash/storage/v1`;

const ask = (by: Served, method: string, route: string, headers: Record<string, string> = {}, body?: string) =>
  fetch(addressOf(by) + route, {
    method,
    headers: { apikey: project.serviceRoleKey, 'tus-resumable': '1.0.0', ...headers },
    ...(body === undefined ? {} : { body }),
  });

const contentOf = async (name: string) =>
  Buffer.from(await (await ask(served, 'GET', `/object/public/b/${name}`)).arrayBuffer());

const collectAt = (now: number) =>
  collect({
    content: new FileStore(directory),
    files: new FileStore(directory),
    databases,
    tenant: () => project,
    log: pino({ level: 'silent' }),
    now,
  });

const partials = () => readdir(path.join(directory, 'crash', PARTIALS)).catch(() => []);

/** Response to a HEAD of a complete upload. */
const WHOLE = [200, '10', '10'];

async function offsetOf(by: Served, route: string): Promise<unknown[]> {
  const { status, headers } = await ask(by, 'HEAD', route);
  return [status, headers.get('upload-offset'), headers.get('upload-length')];
}

const beginning = (name: string) => ({
  'upload-length': '10',
  'upload-metadata': `bucketName ${btoa('b')},objectName ${btoa(name)}`,
});

async function begun(name: string, headers: Record<string, string> = {}): Promise<string> {
  const answer = await ask(served, 'POST', '/upload/resumable', { ...beginning(name), ...headers });
  assert.is(answer.status, 201, await answer.text());
  return `/upload/resumable/${answer.headers.get('location')?.split('/').at(-1)}`;
}

const patch = (by: Served, route: string, body = '0123456789') =>
  ask(by, 'PATCH', route, { 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' }, body);

/**
 * Uploads with the stock client to a server that crashes once and is started again. Resolves to the number of uploads
 * that the client started.
 */
async function uploadThrough(death: Death, name: string, bytes: Buffer): Promise<number> {
  const { port } = served;
  const ended = once(served.child, 'exit');
  served.child.kill();
  await ended;
  served = await serve({ tenant: project, directory, port, death });
  let isRestarted = false;
  served.child.once('exit', async () => {
    served = await serve({ tenant: project, directory, port });
    isRestarted = true;
  });
  let begins = 0;
  await new Promise<void>((resolve, reject) => {
    new Upload(bytes, {
      endpoint: `${addressOf(served)}/upload/resumable`,
      headers: { apikey: project.serviceRoleKey },
      metadata: { bucketName: 'b', objectName: name },
      chunkSize: 500_000,
      retryDelays: Array(600).fill(50),
      onBeforeRequest: (request) => {
        if (request.getMethod() === 'POST') begins++;
      },
      onSuccess: () => resolve(),
      onError: reject,
    }).start();
  });
  await until(() => isRestarted, 'the server to die and to be back');
  return begins;
}

// Renames of an upload: at its start, before its content is stored, while it is stored, and at its end.
const DEATHS: Death[] = [2, 3, 4].flatMap((rename) => [
  { rename, when: 'before' },
  { rename, when: 'after' },
]);

for (const death of DEATHS) {
  const name = `killed-${death.when}-${death.rename}`;
  test(`storage killed ${death.when} step ${death.rename} of an upload’s end keeps acknowledged bytes`, async () => {
    const bytes = randomBytes(1_200_000);
    assert.is(await uploadThrough(death, name, bytes), 1);
    assert.ok((await contentOf(name)).equals(bytes));
    assert.equal(await partials(), []);
    await collectAt(Date.now() + 3 * DAY);
    assert.ok((await contentOf(name)).equals(bytes));
  });
}

/**
 * Starts a process behind a proxy to Postgres, which closes each connection that names an object: after the statement
 * was sent, or after its response and before that arrives.
 */
async function serveDeaf(endsWhen: 'sent' | 'answered'): Promise<Served & { close(): void }> {
  const { host, port } = project.authenticator;
  const carrier = createServer((from) => {
    const to = connect(`${host}/.s.PGSQL.${port}`);
    const end = () => [from, to].forEach((socket) => void socket.destroy());
    let namesObject = false;
    from.on('data', (piece) => {
      namesObject ||= /storage-(insert|upsert)/.test(String(piece)) && !piece.includes('storage-undo');
      to.write(piece, () => namesObject && endsWhen === 'sent' && end());
    });
    to.on('data', (piece) => (namesObject ? end() : from.write(piece)));
    for (const socket of [from, to]) socket.on('error', end).on('close', end);
  });
  await once(carrier.listen(0, '127.0.0.1'), 'listening');
  const by = await serveWith({ host: '127.0.0.1', port: (carrier.address() as AddressInfo).port });
  return { ...by, close: () => void [by.child.kill(), carrier.close()] };
}

const serveWith = (database: { host: string; port: number }) =>
  serve({ tenant: { ...project, authenticator: { ...project.authenticator, ...database } }, directory });

test('an upload whose object was created but whose response was lost is complete, and keeps its content', async () => {
  assert.is((await ask(served, 'PUT', '/object/b/replaced', {}, 'before')).status, 200);
  const deaf = await serveDeaf('answered');
  try {
    const route = await begun('replaced', { 'x-upsert': 'true' });
    assert.is((await patch(deaf, route)).status, 423);
    assert.is(String(await contentOf('replaced')), '0123456789');
    assert.equal(await offsetOf(deaf, route), WHOLE);
    await collectAt(Date.now() + 3 * DAY);
    assert.is(String(await contentOf('replaced')), '0123456789');
  } finally {
    deaf.close();
  }
});

/** Runs `work` while the database delays the creation of an object for a connection that is lost. */
async function whileNamed(route: string, work: (waiting: (count: number) => Promise<unknown>) => Promise<void>) {
  const waiting = async () => (await owner.query('select from pg_locks where not granted')).rows.length;
  await owner.query(`
    create function public.slow() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock(7); return new; end $$;
    create trigger slow before insert on storage.objects for each row execute function public.slow();
    select pg_advisory_lock(7);`);
  const deaf = await serveDeaf('sent');
  try {
    assert.is((await patch(deaf, route)).status, 423);
    const waits = (count: number) => until(async () => (await waiting()) === count, `${count} to name it`);
    await waits(1);
    await work(waits);
  } finally {
    await owner.query('select pg_advisory_unlock_all(); drop function public.slow() cascade');
    deaf.close();
  }
}

const goOn = () => owner.query('select pg_advisory_unlock(7)');

for (const upsert of ['false', 'true']) {
  test(`an upload is completed if it continues while its object is being created (x-upsert: ${upsert})`, async () => {
    const name = `slow-${upsert}`;
    if (upsert === 'true') assert.is((await ask(served, 'PUT', `/object/b/${name}`, {}, 'before')).status, 200);
    const route = await begun(name, { 'x-upsert': upsert });
    await whileNamed(route, async (waits) => {
      const offset = offsetOf(served, route);
      await waits(2);
      await goOn();
      assert.equal(await offset, WHOLE);
    });
    assert.is(String(await contentOf(name)), '0123456789');
  });
}

test('an object that is still being created when its upload is rejected keeps its content', async () => {
  const route = await begun('refused');
  await whileNamed(route, async () => {
    await owner.query(`create or replace function public.slow() returns trigger language plpgsql as
      $$ begin raise exception 'no more'; end $$`);
    assert.is((await offsetOf(served, route))[0], 400);
    await goOn();
    await until(async () => (await ask(served, 'HEAD', '/object/public/b/refused')).status === 200, 'the object');
  });
  assert.is(String(await contentOf('refused')), '0123456789');
});

test('an upload whose only request fails is removed, because no client knows its URL', async () => {
  const deaf = await serveDeaf('answered');
  try {
    const headers = { ...beginning('nobody'), 'content-type': 'application/offset+octet-stream' };
    const answer = await ask(deaf, 'POST', '/upload/resumable', headers, '0123456789');
    assert.equal([answer.status, await answer.text()], [502, 'The database does not answer']);
    assert.equal(await partials(), []);
  } finally {
    deaf.close();
  }
});

/** Creates a complete upload whose content the database could not name. */
async function unnamed(name: string): Promise<string> {
  const lonely = await serveWith({ host: '127.0.0.1', port: await freePort() });
  try {
    const route = await begun(name);
    assert.is((await patch(lonely, route)).status, 423);
    assert.is((await offsetOf(lonely, route))[0], 423);
    return route;
  } finally {
    lonely.child.kill();
  }
}

test('a complete upload returns 423, on which clients wait, while the database is unavailable', async () => {
  const route = await unnamed('patient');
  const offsets = await Promise.all([1, 2, 3].map(() => offsetOf(served, route)));
  assert.equal(offsets, [WHOLE, WHOLE, WHOLE]);
  assert.is(String(await contentOf('patient')), '0123456789');
});

/** Returns the newest content. */
async function newest(): Promise<string> {
  const folder = path.join(directory, 'crash', 'content');
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((file) => file.isFile()).map((file) => path.join(file.parentPath, file.name));
  const times = await Promise.all(files.map(async (file) => (await stat(file)).mtimeMs));
  return files[times.indexOf(Math.max(...times))] as string;
}

test('content of an upload is not deleted as garbage while the upload may become an object', async () => {
  const route = await unnamed('waiting');
  const began = Date.now() - DAY + 60_000;
  await utimes(await newest(), began / 1000, began / 1000);
  await collectAt(Date.now() + 120_000);
  assert.equal(await offsetOf(served, route), WHOLE);
  assert.is(String(await contentOf('waiting')), '0123456789');
});

test('an upload whose content is missing returns 404', async () => {
  const route = await unnamed('lost');
  await rm(await newest());
  assert.is((await offsetOf(served, route))[0], 404);
  assert.equal(await partials(), []);
  assert.is((await ask(served, 'GET', '/object/public/b/lost')).status, 400);
});

test('a complete upload returns 423 after a serialization failure', async () => {
  const route = await begun('deadlocked');
  await owner.query(`
    create function public.deadlocked() returns trigger language plpgsql as
      $$ begin raise exception 'deadlock detected' using errcode = '40P01'; end $$;
    create trigger deadlocked before insert on storage.objects for each row execute function public.deadlocked();`);
  assert.is((await patch(served, route)).status, 423);
  await owner.query('drop function public.deadlocked() cascade');
  assert.equal(await offsetOf(served, route), WHOLE);
});

test('a complete upload returns 423 while S3 is unavailable', async () => {
  const port = await freePort();
  const s3 = { bucket: 'b', region: 'us-east-1', endpoint: `http://127.0.0.1:${port}`, ...S3_KEYS };
  const byS3 = await serve({ tenant: project, directory, s3 });
  const files = path.join(directory, 's3rver');
  const server = new S3rver({
    address: '127.0.0.1',
    port,
    silent: true,
    directory: files,
    configureBuckets: [{ name: 'b', configs: [] }],
  });
  try {
    const route = await begun('far');
    assert.is((await patch(byS3, route)).status, 423);
    assert.is((await offsetOf(byS3, route))[0], 423);
    await server.run();
    assert.equal(await offsetOf(byS3, route), WHOLE);
    assert.is(await (await ask(byS3, 'GET', '/object/public/b/far')).text(), '0123456789');
  } finally {
    byS3.child.kill();
    await server.close().catch(() => undefined);
  }
});

test.run();
