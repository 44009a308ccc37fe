import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestCluster, type TestCluster, type TestProject } from '../../testing/project.js';
import { type Served, serve } from './child.testing.js';
import { collect } from './collect.js';
import { FileStore } from './content/files.js';
import { storageDatabases } from './database.js';

let cluster: TestCluster;
let project: TestProject;
let directory: string;
let served: Served;
const databases = storageDatabases();

test.before(async () => {
  cluster = await startTestCluster();
  project = await cluster.project('crash');
  directory = await mkdtemp(path.join(tmpdir(), 'slipway-crash-'));
  served = await serve({ tenant: project, directory });
  const made = await ask('POST', '/bucket', JSON.stringify({ name: 'b', public: true }));
  assert.is(made.status, 200);
});

test.after(async () => {
  served?.child.kill();
  await databases.close();
  await cluster?.close();
  await rm(directory, { recursive: true, force: true });
});

const ask = (method: string, route: string, body?: string) =>
  fetch(`http://127.0.0.1:${served.port}/p/crash/storage/v1${route}`, {
    method,
    headers: { apikey: project.serviceRoleKey },
    ...(body === undefined ? {} : { body }),
  });

async function files(): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((file) => file.isFile()).map((file) => path.join(file.parentPath, file.name));
}

const collection = (now: number, known: boolean) => ({
  content: new FileStore(directory),
  files: new FileStore(directory),
  databases,
  tenant: () => (known ? project : undefined),
  log: pino({ level: 'silent' }),
  now,
});

const DAY = 24 * 3600 * 1000;

test('storage killed during uploads loses no acknowledged upload and shows no incomplete one', async () => {
  for (let i = 0; i < 10; i++) assert.is((await ask('POST', `/object/b/done-${i}`, `content ${i}`)).status, 200);
  assert.is((await ask('PUT', '/object/b/replaced', 'before')).status, 200);
  const before = (await files()).length;
  const halves = ['half', 'replaced'].map((name) => {
    const socket = connect(served.port, '127.0.0.1').on('error', () => undefined);
    socket.write(
      `PUT /p/crash/storage/v1/object/b/${name} HTTP/1.1\r\nHost: x\r\napikey: ${project.serviceRoleKey}\r\n` +
        `Content-Length: 1000\r\n\r\nhalf`,
    );
    return socket;
  });
  while ((await files()).length < before + 2) await new Promise((resolve) => setImmediate(resolve));
  const ended = new Promise((resolve) => served.child.once('exit', resolve));
  served.child.kill('SIGKILL');
  await ended;
  for (const socket of halves) socket.destroy();

  served = await serve({ tenant: project, directory });
  for (let i = 0; i < 10; i++) {
    assert.is(
      await (await fetch(`http://127.0.0.1:${served.port}/p/crash/storage/v1/object/public/b/done-${i}`)).text(),
      `content ${i}`,
    );
  }
  assert.is((await ask('GET', '/object/b/half')).status, 400);
  assert.is(await (await ask('GET', '/object/b/replaced')).text(), 'before');
  assert.is((await files()).length, before + 2);
  await collect(collection(Date.now(), true));
  assert.is((await files()).length, before + 2);
  await collect(collection(Date.now() + 3 * DAY, true));
  assert.is((await files()).length, before);
});

/**
 * Proxy to Postgres that closes each connection with an upsert after Postgres has committed it and before its response
 * arrives.
 */
async function startDeafCarrier(): Promise<Server> {
  const { host, port } = project.authenticator;
  const carrier = createServer((from) => {
    const to = connect(`${host}/.s.PGSQL.${port}`);
    const end = () => [from, to].forEach((socket) => void socket.destroy());
    let isUpsert = false;
    from.on('data', (piece) => {
      isUpsert ||= piece.includes('storage-upsert');
      to.write(piece);
    });
    to.on('data', (piece) => (isUpsert ? end() : from.write(piece)));
    for (const socket of [from, to]) socket.on('error', end).on('close', end);
  });
  await new Promise<void>((resolve) => carrier.listen(0, '127.0.0.1', resolve));
  return carrier;
}

test('content stays if the database has recorded it but its response was lost', async () => {
  const carrier = await startDeafCarrier();
  const { port } = carrier.address() as AddressInfo;
  const authenticator = { ...project.authenticator, host: '127.0.0.1', port };
  const deaf = await serve({ tenant: { ...project, authenticator }, directory });
  try {
    const url = `http://127.0.0.1:${deaf.port}/p/crash/storage/v1/object/b/replaced`;
    const answer = await fetch(url, { method: 'PUT', headers: { apikey: project.serviceRoleKey }, body: 'after' });
    assert.is(answer.status, 502);
    assert.is(await (await ask('GET', '/object/b/replaced')).text(), 'after');
    const before = (await files()).length;
    await collect(collection(Date.now() + 3 * DAY, true));
    assert.is((await files()).length, before - 1);
    assert.is(await (await ask('GET', '/object/b/replaced')).text(), 'after');
  } finally {
    deaf.child.kill();
    carrier.close();
  }
});

test('content that no object refers to is deleted, and other content stays', async () => {
  const store = new FileStore(directory);
  const orphan = { ref: 'crash', version: randomUUID() };
  await store.write(orphan, Readable.from([Buffer.from('orphan')]), { limit: 100 });
  const before = (await files()).length;
  await collect(collection(Date.now() + 3 * DAY, true));
  assert.is((await files()).length, before - 1);
  assert.is((await ask('GET', '/object/b/done-0')).status, 200);
});

test('the files of a deleted project stay for a week, in case it is created again', async () => {
  const before = (await files()).length;
  const now = Date.now();
  await collect(collection(now, false));
  await collect(collection(now + 6 * DAY, false));
  assert.is((await files()).length, before + 1);
  await collect(collection(now + 6 * DAY, true));
  assert.is((await files()).length, before);
  await collect(collection(now + 7 * DAY, false));
  await collect(collection(now + 8 * DAY, false));
  assert.is((await files()).length, before + 1);
  const theirs = path.join(directory, 'backups', 'monday.tar');
  await mkdir(path.dirname(theirs));
  await writeFile(theirs, 'not storage’s');
  await collect(collection(now + 15 * DAY, false));
  await collect(collection(now + 30 * DAY, false));
  assert.equal(await files(), [theirs]);
});

test.run();
