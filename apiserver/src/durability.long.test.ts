/**
 * Kills the server program while clients write, or when it loads more than fits into its heap. After a restart, all
 * acknowledged writes must be there, with versions that only increase.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCertificates } from './certificate.js';
import { type Json, Target } from './conformance/target.js';
import { kubeconfigOf } from './kubeconfig.js';

const TOKEN = 'a-token-of-the-test';
const WRITERS = 16;
/** Number of acknowledged writes before each kill. */
const WRITES = 150;
const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps';

const test = suite('durability');
let folder: string;
let postgres: TestPostgres;
let environment: Record<string, string>;
let ca: string;
let child: ChildProcess | undefined;

test.before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-durability-'));
  postgres = await startTestPostgres();
  const certificates = await makeCertificates(['127.0.0.1']);
  ca = certificates.ca;
  const file = async (name: string, text: string) => {
    const at = path.join(folder, name);
    await writeFile(at, text, { mode: 0o600 });
    return at;
  };
  const keys = { current: 'a', keys: { a: Buffer.alloc(32, 1).toString('base64') } };
  const { user, password, host, port, database } = postgres.admin();
  environment = {
    SLIPWAY_LISTEN: '127.0.0.1:0',
    SLIPWAY_DATABASE_URL: `postgresql://${user}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`,
    SLIPWAY_ENCRYPTION_KEYS: await file('keys', JSON.stringify(keys)),
    SLIPWAY_TOKENS: await file('tokens', JSON.stringify([{ token: TOKEN, user: 'admin', groups: [] }])),
    SLIPWAY_TLS_CERT: await file('cert', certificates.cert),
    SLIPWAY_TLS_KEY: await file('key', certificates.key),
    SLIPWAY_LOG_LEVEL: 'silent',
  };
});

test.after(async () => {
  if (child) await kill(child);
  await postgres?.close();
  await rm(folder, { recursive: true, force: true });
});

async function start(execArgv: string[] = []): Promise<Target> {
  child = fork(new URL('main.js', import.meta.url), { env: environment, execArgv });
  const over = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`the server ended before it was ready: ${signal ?? code}`);
  });
  const [{ url }] = (await Promise.race([once(child, 'message'), over])) as [{ url: string }];
  const kubeconfig = path.join(folder, 'kubeconfig');
  await writeFile(kubeconfig, kubeconfigOf({ url, ca, token: TOKEN }), { mode: 0o600 });
  return new Target('ours', kubeconfig);
}

async function kill(running: ChildProcess): Promise<void> {
  if (running.exitCode !== null || running.signalCode !== null) return;
  const ended = once(running, 'exit');
  running.kill('SIGKILL');
  await ended;
}

/** The last acknowledged version of each object, by name. */
type Acknowledged = Map<string, number>;

/** Creates and changes objects until the server ends. */
async function write(target: Target, prefix: string, acknowledged: Acknowledged, onWrite: () => void): Promise<void> {
  for (let index = 0; ; index++) {
    const metadata = { name: `${prefix}-${index}` };
    const requests: [string, string, Json][] = [
      ['POST', CONFIG_MAPS, { metadata }],
      ['PUT', `${CONFIG_MAPS}/${metadata.name}`, { metadata, data: { a: '1' } }],
    ];
    for (const [method, at, object] of requests) {
      const answer = await target.send(method, at, object).catch(() => undefined);
      if (!answer) return;
      if (answer.code >= 300) throw new Error(answer.text);
      acknowledged.set(metadata.name, Number(answer.body.metadata.resourceVersion));
      onWrite();
    }
  }
}

test('killing the server loses no acknowledged write, and an earlier watch gets 410', async () => {
  const acknowledged: Acknowledged = new Map();
  let highest = 0;
  for (let round = 0; round < 3; round++) {
    const target = await start();
    const { promise: enough, resolve } = Promise.withResolvers<void>();
    let written = 0;
    const onWrite = () => ++written === WRITES && resolve();
    const writers = Array.from({ length: WRITERS }, (_, index) =>
      write(target, `r${round}-w${index}`, acknowledged, onWrite),
    );
    await enough;
    await kill(child as ChildProcess);
    await Promise.all(writers);
    target.close();

    const after = await start();
    const { body: list } = await after.send('GET', CONFIG_MAPS);
    const stored = new Map<string, number>(
      list.items.map(({ metadata }: Json) => [metadata.name, Number(metadata.resourceVersion)]),
    );
    for (const [name, version] of acknowledged) assert.ok((stored.get(name) ?? 0) >= version, name);
    highest = Math.max(highest, ...acknowledged.values(), ...stored.values());
    const { body: next } = await after.send('POST', CONFIG_MAPS, { metadata: { name: `next-${round}` } });
    assert.ok(Number(next.metadata.resourceVersion) > highest);
    const late = await after.send('GET', `${CONFIG_MAPS}?watch=1&resourceVersion=1`);
    assert.is(late.body?.code ?? JSON.parse(late.text).object.code, 410);
    await kill(child as ChildProcess);
    after.close();
  }
});

const LITTLE_HEAP = ['--max-old-space-size=96'];
/** A text of 900 kB in UTF-8, and of 600 kB in the heap. */
const LONG = '€'.repeat(300_000);
const OBJECTS = 128;
const MOST_OF_A_PAGE = 5 * 1024 * 1024;

test('a server stores, loads and lists objects that are larger than its heap', async () => {
  const target = await start(LITTLE_HEAP);
  for (let index = 0; index < OBJECTS; index++) {
    const object = { metadata: { name: `long-${index}`, labels: { size: 'long' } }, data: { text: LONG } };
    assert.is((await target.send('POST', CONFIG_MAPS, object)).code, 201);
  }
  await kill(child as ChildProcess);
  target.close();

  const after = await start(LITTLE_HEAP);
  const names = new Set<string>();
  for (let next: string | undefined = ''; next !== undefined; ) {
    const query = `labelSelector=size%3Dlong&limit=500&continue=${next}`;
    const { text, body } = await after.send('GET', `${CONFIG_MAPS}?${query}`);
    assert.ok(text.length < MOST_OF_A_PAGE);
    for (const { metadata, data } of body.items) {
      names.add(metadata.name);
      assert.ok(data.text === LONG);
    }
    next = body.metadata.continue;
  }
  assert.is(names.size, OBJECTS);
  const { body: whole } = await after.send('GET', `${CONFIG_MAPS}?labelSelector=size%3Dlong`);
  assert.is(whole.items.length, OBJECTS, 'a list without a limit is whole');
  await kill(child as ChildProcess);
  after.close();
});

test.run();
