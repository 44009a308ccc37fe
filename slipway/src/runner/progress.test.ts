/** Tests the order of test files, and the runner's estimate of the remaining time. */
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const { longestFirst, processesOf, Progress } = await import(
  new URL('../../../scripts/test/progress.mjs', import.meta.url).href
);

const { usualTimes } = await import(new URL('../../../scripts/test/records.mjs', import.meta.url).href);
const { nameOf, testFiles } = await import(new URL('../../../scripts/test/sets.mjs', import.meta.url).href);
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

test.run();
