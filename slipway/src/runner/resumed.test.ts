/** Tests which files a run that continues an earlier one leaves out, with real records and a real git checkout. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const script = (name: string) => import(new URL(`../../../scripts/test/${name}.mjs`, import.meta.url).href);
const { FileRecords, presentState } = await script('records');
const { filesLeft, optionsOf } = await script('options');

const [PASSES, FAILS, SKIPS, NEW] = ['passes', 'fails', 'skips', 'new'].map((name) => `a/dist/${name}.test.js`);
const FILES = [PASSES, FAILS, SKIPS, NEW];

let folder: string;
let file: string;
test.before.each(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  file = path.join(folder, 'records.json');
});
test.after.each(() => rmSync(folder, { recursive: true, force: true }));

const recordsAt = (state: string, files = FILES) => new FileRecords(files, { file, state });

function run(state: string) {
  const records = recordsAt(state);
  records.add({ name: 'a/passes.test.js', seconds: 1.25, passed: 2, failed: 0 });
  records.add({ name: 'a/fails.test.js', seconds: 3, passed: 1, failed: 1 });
  records.add({ name: 'a/skips.test.js', seconds: 0.5, passed: 0, failed: 0 });
}

const leftAfter = (options: string[], state: string) => {
  const { isResumed, isOnlyFailed } = optionsOf(options);
  return filesLeft(FILES, { isResumed, isOnlyFailed }, recordsAt(state));
};

test('a resumed run skips the files that passed in the same state', () => {
  run('one');
  assert.equal(leftAfter(['--resume'], 'one'), [FAILS, SKIPS, NEW]);
  assert.equal(leftAfter(['--resume'], 'two'), FILES);
  assert.equal(leftAfter([], 'one'), FILES);
});

test('a run of the failed files takes the last result of each file, in any state', () => {
  run('one');
  assert.equal(leftAfter(['--only-failed'], 'two'), [FAILS]);
  recordsAt('two').add({ name: 'a/fails.test.js', seconds: 3, passed: 2, failed: 0 });
  assert.equal(leftAfter(['--only-failed'], 'two'), []);
});

test('a record has the times of the files, without those of deleted ones', () => {
  run('one');
  assert.is(recordsAt('one').times.get('a/passes.test.js'), 1.3);
  assert.is(recordsAt('one', [FAILS]).times.get('a/passes.test.js'), undefined);
});

test('a truncated record is an empty one', () => {
  writeFileSync(file, '{"a/passes.test.js": {');
  assert.equal(leftAfter(['--resume'], 'one'), FILES);
});

test('an unknown option is an error that names the known ones', () => {
  assert.throws(() => optionsOf(['--resum']), /^unknown: --resum\. The options are --changed, --resume,/);
  assert.equal(optionsOf(['--long', '--resume', 'e2e']), {
    ...{ set: 'long', isChanged: false, isResumed: true, isOnlyFailed: false, any: false },
    parts: ['e2e'],
  });
});

test('a changed, an added and a committed file each make another state, and a restored one the same', () => {
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.c', ...args], { cwd: folder, stdio: 'pipe' });
  const write = (text: string) => writeFileSync(path.join(folder, 'source'), text);
  git('init', '--quiet');
  write('one');
  git('add', '.');
  git('commit', '--quiet', '--message', 'one');
  const first = presentState(folder);
  write('two');
  const changed = presentState(folder);
  write('one');
  assert.is(presentState(folder), first);
  writeFileSync(path.join(folder, 'added'), '');
  const added = presentState(folder);
  git('add', '.');
  git('commit', '--quiet', '--message', 'two');
  assert.is(new Set([first, changed, added, presentState(folder)]).size, 4);
});

test.run();
