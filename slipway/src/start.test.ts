/** Starts that can't work: each must end with one clear line that names the fix. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort, installedBinaries } from '@slipway/postgres';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { takeLock } from './lock.js';

let home: string;

test.before.each(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  await chmod(home, 0o711);
});

test.after.each(() => rm(home, { recursive: true, force: true }));

test('a second start over the same home names the first one’s process and the ways out', async () => {
  const lock = await takeLock(home);
  const line = await failingStart({ SLIPWAY_HOME: home });
  lock?.release();
  assert.is(
    line,
    `slipway: Slipway already runs over ${home} (process ${process.pid}): ` +
      'end it with `npm stop`, or set SLIPWAY_HOME and SLIPWAY_PORT for a second one',
  );
});

for (const [offset, use] of [
  [0, 'SLIPWAY_PORT'],
  [1, 'SLIPWAY_PORT + 1, for the Kubernetes API'],
  [2, 'SLIPWAY_PORT + 2, for Postgres'],
] as const) {
  test(`a taken port is named, with its use: ${use}`, async () => {
    const taken = createServer();
    const port = await freePort(3);
    await new Promise<void>((resolve) => taken.listen(port + offset, '127.0.0.1', resolve));
    const line = await failingStart({ SLIPWAY_HOME: home, SLIPWAY_PORT: String(port) });
    taken.close();
    assert.is(
      line,
      `slipway: port ${port + offset} (${use}) is taken by another program: end it, or set SLIPWAY_PORT to another number`,
    );
  });
}

test('a home that is a file is named', async () => {
  const file = path.join(home, 'file');
  await writeFile(file, '');
  const line = await failingStart({ SLIPWAY_HOME: file });
  assert.is(line, `slipway: there is a file where a folder should be at ${file}: set SLIPWAY_HOME to another folder`);
});

test('a home that can’t be written is named', async () => {
  const line = await failingStart({ SLIPWAY_HOME: '/proc/slipway' });
  assert.match(line, /^slipway: .* at \/proc\/slipway: set SLIPWAY_HOME to /);
});

const NEEDED = ['postgres-superuser', 'apiserver-keys.json', 'api-keys.json', 'jwt-secret'];

/** Data of a Postgres that an earlier start made, and its secrets. */
async function putData(version: string, folder = 'postgres', secrets = NEEDED): Promise<string> {
  const data = path.join(home, folder);
  await mkdir(data);
  await writeFile(path.join(data, 'PG_VERSION'), `${version}\n`);
  await writeFile(path.join(data, 'slipway-initialised'), '');
  await mkdir(path.join(home, 'secrets'));
  for (const name of secrets) await writeFile(path.join(home, 'secrets', name), 'kept');
  return data;
}

for (const name of NEEDED) {
  for (const how of ['missing', 'empty']) {
    test(`a start over existing data names ${name} when it is ${how}, and makes no new one`, async () => {
      await putData('99');
      const file = path.join(home, 'secrets', name);
      await (how === 'missing' ? rm(file) : writeFile(file, ''));
      const line = await failingStart({ SLIPWAY_HOME: home, SLIPWAY_PORT: String(await freePort(3)) });
      assert.match(
        line,
        new RegExp(`^slipway: ${file} is missing, and the data in ${home}/postgres needs it: restore `),
      );
      const found = await readFile(file, 'utf8').catch(() => '');
      assert.is(found, '');
    });
  }
}

const NEEDED_BY_PLATFORM = ['platform-postgres-superuser', 'apiserver-keys.json', 'api-keys.json', 'jwt-secret'];

for (const name of NEEDED_BY_PLATFORM) {
  test(`a start over data of the platform's Postgres names ${name} when it is missing`, async () => {
    await putData('99', 'platform-postgres', NEEDED_BY_PLATFORM);
    const file = path.join(home, 'secrets', name);
    await rm(file);
    const line = await failingStart({ SLIPWAY_HOME: home, SLIPWAY_PORT: String(await freePort(3)) });
    assert.match(
      line,
      new RegExp(`^slipway: ${file} is missing, and the data in ${home}/platform-postgres needs it: restore `),
    );
    assert.is(await readFile(file, 'utf8').catch(() => ''), '');
  });
}

test('data of a newer Postgres is left alone', async () => {
  const data = await putData('99');
  const line = await failingStart({ SLIPWAY_HOME: home, SLIPWAY_PORT: String(await freePort(3)) });
  const ours = (await installedBinaries()).version.split('.')[0];
  assert.match(
    line,
    new RegExp(`^slipway: the data in ${data} is of Postgres 99, and this program brings Postgres ${ours}: `),
  );
});

test('an unknown word on the command line is named', async () => {
  assert.is(
    await failingStart({ SLIPWAY_HOME: home }, ['begin']),
    'slipway: there is no "begin": npm start -- --help lists the commands',
  );
});

for (const words of [['--help'], ['-h'], ['stop', '--help'], ['stop', '-h'], ['admin', '--help'], ['start', '-h']])
  test(`${words.join(' ')} prints help and does nothing else`, async () => {
    const main = fileURLToPath(new URL('./main.js', import.meta.url));
    const { stdout } = await promisify(execFile)(process.execPath, [main, ...words], { env: { SLIPWAY_HOME: home } });
    assert.match(stdout, /^\nnpm start +starts the platform[\s\S]*npm stop[\s\S]*SLIPWAY_PORT/);
  });

test('a word too many is named', async () => {
  assert.is(
    await failingStart({ SLIPWAY_HOME: home }, ['stop', 'now']),
    'slipway: stop takes no "now": npm start -- --help lists the commands',
  );
});

test('a stop where nothing runs says so', async () => {
  assert.is(await failingStart({ SLIPWAY_HOME: home }, ['stop']), `slipway: nothing runs over ${home}`);
});

test('every secret that a start makes is its starter’s alone', async () => {
  await writeFile(path.join(home, 'postgres'), 'no folder, so that the start ends once the secrets are made');
  await failingStart({ SLIPWAY_HOME: home, SLIPWAY_PORT: String(await freePort(3)) });
  for (const folder of ['secrets', 'tls', 'programs']) {
    assert.is((await stat(path.join(home, folder))).mode & 0o777, 0o700, folder);
    const files = await readdir(path.join(home, folder));
    assert.is.not(files.length, 0);
    for (const file of files) assert.is((await stat(path.join(home, folder, file))).mode & 0o777, 0o600, file);
  }
  assert.is((await stat(path.join(home, 'kubeconfig'))).mode & 0o777, 0o600);
  const key = await readFile(path.join(home, 'secrets', 'apiserver-keys.json'), 'utf8');
  assert.is.not(key, await readFile(path.join(home, 'secrets', 'api-keys.json'), 'utf8'));
});

/** Returns the program's standard error, which is one line, with status 1. */
async function failingStart(environment: Record<string, string>, args: string[] = []): Promise<string> {
  const main = fileURLToPath(new URL('./main.js', import.meta.url));
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  const [code] = await once(child, 'close');
  assert.is(code, 1, said);
  assert.is(said.split('\n').length, 2, said);
  return said.trimEnd();
}

test.run();
