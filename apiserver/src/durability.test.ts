/**
 * The program itself, killed while clients write: what it has acknowledged is there again, at versions that never go
 * back.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCertificates } from './certificate.js';
import { type Json, Target } from './conformance/target.js';
import { kubeconfigOf } from './kubeconfig.js';

const TOKEN = 'a-token-of-the-test';
const WRITERS = 16;
/** Acknowledged writes before each kill. */
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

async function start(): Promise<Target> {
  child = fork(new URL('main.js', import.meta.url), { env: environment });
  const [{ url }] = (await once(child, 'message')) as [{ url: string }];
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

/** Name of an object to the version that was acknowledged last. */
type Acknowledged = Map<string, number>;

/** Creates and changes objects until the server is gone. */
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

test('kill -9 while clients write loses nothing acknowledged, versions go on, and a watch of before is told 410', async () => {
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

test.run();
