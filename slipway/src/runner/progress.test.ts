/** Tests the order of test files, and the estimates of the remaining time: the runner's, and that of a first start. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const { longestFirst, processesOf, Progress } = await import(
  new URL('../../../scripts/test/progress.mjs', import.meta.url).href
);

const { TimeLeft } = await import(new URL('../../../scripts/time-left.mjs', import.meta.url).href);
const { usualTimes } = await import(new URL('../../../scripts/test/records.mjs', import.meta.url).href);
const { nameOf, testFiles } = await import(new URL('../../../scripts/test/sets.mjs', import.meta.url).href);
const PROGRESS_THREAD = new URL('../../../scripts/prepare-progress.mjs', import.meta.url).href;
const root = fileURLToPath(new URL('../../../', import.meta.url));

const file = (name: string) => `a/dist/${name}.test.js`;
const times = new Map([
  ['a/short.test.js', 1],
  ['a/long.test.js', 60],
  ['a/middle.test.js', 20],
]);

test('the longest test files come first, and a file without a recorded time counts as average', () => {
  const files = ['short', 'new', 'long', 'middle'].map(file);
  assert.equal(longestFirst(files, times), ['long', 'middle', 'new', 'short'].map(file));
});

test('short test files of a workspace share processes of a minute, except files with their own process', () => {
  const files = ['short', 'new', 'long', 'middle'].map(file);
  const other = 'b/dist/other.test.js';
  const shares = (each: string) => each !== file('new');
  assert.equal(processesOf([...files, other], times, shares), [
    [file('long')],
    [file('middle'), file('short')],
    [file('new')],
    [other],
  ]);
});

test('a new checkout orders its test files by the usual times, which name existing files', () => {
  const usual = new Map<string, number>(usualTimes());
  const names = new Set(testFiles(root).map(nameOf));
  assert.equal(
    [...usual.keys()].filter((name) => !names.has(name)),
    [],
  );
});

test('the remaining time is divided by the lanes, and is at least the time of the longest file', () => {
  let now = 0;
  const progress = new Progress(['short', 'long', 'middle'].map(file), { times, lanes: 2, now: () => now });
  assert.is(`${progress}`, '0 of 3 files, about 1:00 left');
  progress.start(file('long'));
  progress.start(file('middle'));
  now = 20_000;
  progress.end(file('middle'));
  assert.is(`${progress}`, '1 of 3 files, about 0:40 left');
  now = 100_000;
  assert.is(progress.secondsLeft(), 1);
  progress.end(file('long'));
  progress.start(file('short'));
  progress.end(file('short'));
  assert.is(`${progress}`, '3 of 3 files, about 0:00 left');
});

test('the rest of a step is estimated from its first items on, and before that from its usual time', () => {
  const timeLeft = new TimeLeft({ total: 100, done: 0, usualSeconds: 60, now: 0 });
  assert.is(timeLeft.at(0, 10_000), '0 of 100, about 0:50 left');
  assert.is(timeLeft.at(0, 300_000), '0 of 100, about 0:01 left');
  assert.is(timeLeft.at(20, 301_000), '20 of 100, about 0:01 left');
  assert.is(timeLeft.at(40, 311_000), '40 of 100, about 0:30 left');
  assert.is(timeLeft.at(100, 350_000), '100 of 100, about 0:00 left');
});

test('a step that prepares a script shows its finished files on a terminal until it ends', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-progress-'));
  const files = ['one', 'two'].map((name) => path.join(folder, name));
  await writeFile(files[0] as string, '');
  const program = `
    import { Worker } from 'node:worker_threads';
    const signals = new Int32Array(new SharedArrayBuffer(8));
    const workerData = { title: 'code compiled', files: ${JSON.stringify(files)}, usualSeconds: 20, signals };
    new Worker(new URL(${JSON.stringify(PROGRESS_THREAD)}), { workerData, execArgv: [] });
    Atomics.wait(signals, 1, 0, 700);
    Atomics.store(signals, 0, 1);
    Atomics.notify(signals, 0);
    process.exitCode = Atomics.wait(signals, 1, 0, 5000) === 'timed-out' ? 1 : 0;`;
  const { stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program]);
  await rm(folder, { recursive: true });
  assert.match(stderr, /\r\x1b\[K… code compiled: 1 of 2, about 0:(19|20) left/);
  assert.ok(stderr.endsWith('\r\x1b[K'));
});

test.run();
