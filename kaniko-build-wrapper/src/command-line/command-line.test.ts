/** Tests the command line as a program, with repositories that a real git server serves. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { missingWall } from '../index.js';
import { GitServer, Workshop } from '../testing.js';

const PROGRAM = fileURLToPath(new URL('./main.js', import.meta.url));
const TOKEN = 'a-token-of-the-repository';
const SECRET = 'a-value-that-nobody-reads';
const workshop = new Workshop();
const to = path.join(workshop.folder, 'sites');
let server: GitServer;
test.before(async () => {
  server = await new GitServer(workshop, TOKEN).listen();
  writeFileSync(path.join(workshop.folder, 'token'), `${TOKEN}\n`);
  writeFileSync(path.join(workshop.folder, 'env'), `SECRET=${SECRET}\nVITE_NAME=shown\n`);
});
test.after(() => {
  server.close();
  workshop.close();
});
const isSealed = missingWall() === undefined;
if (!isSealed) console.log(`# skipped: this machine cannot isolate builds: ${missingWall()}`);
const sealedTest = isSealed ? test : test.skip;

interface Event {
  event: string;
  step?: string;
  text?: string;
  exitCode?: number;
  message?: string;
  deployment?: string;
}

async function run(...args: string[]) {
  const env = { PATH: process.env.PATH, ...server.settings };
  const child = spawn(process.execPath, [PROGRAM, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  const events = stdout
    .trim()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Event);
  return { code: child.exitCode, events, stderr };
}

const inFolder = (name: string) => path.join(workshop.folder, name);

sealedTest('the command line builds a private repository, and publishes it', async () => {
  const script = 'mkdir dist && echo "$SECRET" && echo "$VITE_NAME" | tee dist/index.html';
  workshop.repository('script', { 'package.json': { name: 'script', version: '1.0.0', scripts: { build: script } } });
  const files = [`--token-file=${inFolder('token')}`, `--env-file=${inFolder('env')}`];
  const { code, events, stderr } = await run(`${server.origin}/script.git`, `--to=${to}`, '--site=shop', ...files);
  assert.is(code, 0, stderr + JSON.stringify(events));
  assert.equal(
    events.filter(({ event }) => event === 'step').map(({ step }) => step),
    ['Cloning', 'Installing', 'Building'],
  );
  const log = events.map(({ text = '' }) => text).join('');
  assert.match(log, /shown/);
  assert.not.match(log, new RegExp(SECRET));
  const { deployment } = events.at(-1) as Event;
  assert.is(readFileSync(path.join(to, 'shop/deployments', `${deployment}`, 'files/index.html'), 'utf8'), 'shown\n');
  assert.is(readFileSync(path.join(to, 'shop/live'), 'utf8').trim(), deployment);
});

sealedTest('the command line exits with the code of the command that failed', async () => {
  workshop.repository('private', { 'index.html': '' });
  const denied = await run(`${server.origin}/private.git`, `--to=${to}`);
  assert.equal([denied.code, denied.events.at(-1)?.step], [128, 'Cloning']);
  const missing = ['--token-file', inFolder('token'), '--build-command=exit 7', '--output-dir=.'];
  const failed = await run(`${server.origin}/private.git`, `--to=${to}`, ...missing);
  assert.equal([failed.code, failed.events.at(-1)?.exitCode], [7, 7]);
  assert.equal(readdirSync(to), ['shop']);
});

sealedTest('the command line keeps a cache within its limit, and removes its other files', async () => {
  const cache = inFolder('cache');
  // A cache keeps twenty entries.
  for (let entry = 0; entry < 30; entry += 1) mkdirSync(path.join(cache, 'modules', `${entry}`), { recursive: true });
  const before = readdirSync(tmpdir()).filter((name) => name.startsWith('site-'));
  workshop.repository('locked', { 'index.html': 'x' });
  const locked = ['--token-file', inFolder('token'), '--build-command=mkdir a a/b && chmod 0 a', '--output-dir=.'];
  await run(`${server.origin}/locked.git`, `--to=${to}`, '--site=locked', `--cache=${cache}`, ...locked);
  const entries = ['modules', 'packages', 'toolchains'].flatMap((kind) => readdirSync(path.join(cache, kind)));
  assert.is(entries.length, 20);
  assert.equal(
    readdirSync(tmpdir()).filter((name) => name.startsWith('site-')),
    before,
  );
});

test('the command line names an invalid argument', async () => {
  for (const [args, named] of [
    [[], /one repository/],
    [['https://git.example.com/a.git'], /--to/],
    [['https://git.example.com/a.git', '--to=x', '--site=../y'], /--site/],
    [['https://git.example.com/a.git', '--to=x', '--minutes=-1'], /--minutes/],
    [['https://git.example.com/a.git', '--to=x', '--token-file=/nowhere'], /--token-file.*no such file/],
    [['https://git.example.com/a.git', '--unknown'], /--unknown/],
  ] as const) {
    const { code, events, stderr } = await run(...args);
    assert.equal([code, events], [2, []]);
    assert.match(stderr, named);
  }
});

test.run();
