/** Tests starts that can't work. Each must end with one clear line that names the fix. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { installedBinaries } from '@slipway/postgres';
import { freePort, isFreePort } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { takeLock } from './lock.js';

let home: string;

test.before.each(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  await chmod(home, 0o711);
});

test.after.each(() => rm(home, { recursive: true, force: true }));

test('a second start over the same home names the first one’s process and the fixes', async () => {
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
  test(`a taken port is reported before any step, with free ports: ${use}`, async () => {
    const taken = createServer();
    const port = await freePort(3);
    await new Promise<void>((resolve) => taken.listen(port + offset, '127.0.0.1', resolve));
    const { line, output } = await failingStartWithOutput({ SLIPWAY_HOME: home, SLIPWAY_PORT: String(port) });
    taken.close();
    const [, named = '', other = ''] = /^slipway: (.*) SLIPWAY_PORT=(\d+) npm start$/.exec(line) ?? [line];
    assert.is(
      named,
      `port ${port + offset} (${use}) is taken by another program: end that (another Slipway by npm stop in its ` +
        'folder), or start this one on other ports:',
    );
    assert.is.not(other, '');
    for (const each of [0, 1, 2]) assert.ok(await isFreePort(Number(other) + each));
    assert.is(output, '');
  });
}

test('a home is reported when it is a file', async () => {
  const file = path.join(home, 'file');
  await writeFile(file, '');
  const line = await failingStart({ SLIPWAY_HOME: file });
  assert.is(line, `slipway: there is a file where a folder should be at ${file}: set SLIPWAY_HOME to another folder`);
});

test('a home is reported when it can’t be written', async () => {
  const line = await failingStart({ SLIPWAY_HOME: '/proc/slipway' });
  assert.match(line, /^slipway: .* at \/proc\/slipway: set SLIPWAY_HOME to /);
});

const NEEDED = ['postgres-superuser', 'apiserver-keys.json', 'api-keys.json', 'jwt-secret'];

/** Writes a data folder like that of an earlier start, and its secrets. */
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
    test(`a start over existing data reports ${name} when it is ${how}, and creates no new one`, async () => {
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
  test(`a start over data of the platform's Postgres reports a missing ${name}`, async () => {
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

test('a start over data of a newer Postgres leaves the data unchanged', async () => {
  const data = await putData('99');
  const line = await failingStart({ SLIPWAY_HOME: home, SLIPWAY_PORT: String(await freePort(3)) });
  const ours = (await installedBinaries()).version.split('.')[0];
  assert.match(
    line,
    new RegExp(`^slipway: the data in ${data} is of Postgres 99, and this program brings Postgres ${ours}: `),
  );
});

test('an unknown word on the command line is reported', async () => {
  assert.is(
    await failingStart({ SLIPWAY_HOME: home }, ['begin']),
    'slipway: there is no "begin": npm start -- --help lists the commands',
  );
});

for (const words of [['--help'], ['-h'], ['stop', '--help'], ['stop', '-h'], ['admin', '--help'], ['start', '-h']])
  test(`the command line ${words.join(' ')} prints help and does nothing else`, async () => {
    const main = fileURLToPath(new URL('./main.js', import.meta.url));
    const { stdout } = await promisify(execFile)(process.execPath, [main, ...words], { env: { SLIPWAY_HOME: home } });
    assert.match(stdout, /^\nnpm start +starts the platform[\s\S]*npm stop[\s\S]*SLIPWAY_PORT/);
  });

test('an option on the command line is reported, and the error names the environment variables', async () => {
  assert.is(
    await failingStart({ SLIPWAY_HOME: home }, ['--port', '5140']),
    'slipway: there is no option --port: settings are environment variables, such as SLIPWAY_PORT=4010 npm start. ' +
      'npm start -- --help lists them',
  );
});

test('an extra word on the command line is reported', async () => {
  assert.is(
    await failingStart({ SLIPWAY_HOME: home }, ['stop', 'now']),
    'slipway: stop takes no "now": npm start -- --help lists the commands',
  );
});

test('a stop reports that nothing runs', async () => {
  assert.is(await failingStart({ SLIPWAY_HOME: home }, ['stop']), `slipway: nothing runs over ${home}`);
});

test('every secret that a start creates can be read only by the account that started it', async () => {
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

const failingStart = async (environment: Record<string, string>, args: string[] = []): Promise<string> =>
  (await failingStartWithOutput(environment, args)).line;

/** Returns the program's standard error, which must be one line, and its standard output. The exit code must be 1. */
async function failingStartWithOutput(environment: Record<string, string>, args: string[] = []) {
  const main = fileURLToPath(new URL('./main.js', import.meta.url));
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [said, output] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  const [code] = await once(child, 'close');
  assert.is(code, 1, said);
  assert.is(said.split('\n').length, 2, said);
  return { line: said.trimEnd(), output };
}

test.run();
