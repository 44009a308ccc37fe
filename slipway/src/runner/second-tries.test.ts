/** Tests a whole run of the runner on a small repository: second tries of failed files, and the time limit. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { withSecondTries, MOST_RETRIED } = await import(`${root}scripts/test/second-tries.mjs`);

const PASSES = `test('passes', () => {});`;
const FAILS = `test('fails', () => { throw new Error('it broke'); });`;
/** Fails at its first run alone. */
const flaky = (mark: string) => `test('is unlucky once', () => {
  if (existsSync(${JSON.stringify(mark)})) return;
  writeFileSync(${JSON.stringify(mark)}, '');
  throw new Error('bad luck');
});`;

const LINTS_JSON = { formatter: { enabled: false }, files: { includes: ['**/*.json'] } };

let folder: string;
test.before(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
});
test.after(() => rmSync(folder, { recursive: true, force: true }));

/** Makes a repository with these test files, and the present runner. */
function repositoryOf(files: Record<string, string>): string {
  const repository = mkdtempSync(path.join(folder, 'repository-'));
  cpSync(path.join(root, 'scripts'), path.join(repository, 'scripts'), { recursive: true });
  writeFileSync(path.join(repository, 'package.json'), JSON.stringify({ type: 'module', workspaces: ['a'] }));
  const lockfile = path.join(repository, 'package-lock.json');
  writeFileSync(lockfile, '{}');
  // Older than the installed packages, so that none are installed.
  utimesSync(lockfile, 0, 0);
  symlinkSync(path.join(root, 'node_modules'), path.join(repository, 'node_modules'));
  writeFileSync(path.join(repository, 'tsconfig.json'), '{ "files": ["none.d.ts"] }');
  writeFileSync(path.join(repository, 'none.d.ts'), '');
  writeFileSync(path.join(repository, 'biome.json'), `${JSON.stringify(LINTS_JSON)}\n`);
  for (const [name, body] of Object.entries(files)) {
    const imports = `import { existsSync, writeFileSync } from 'node:fs';\nimport { test } from 'uvu';`;
    for (const [place, text] of [
      ['src', ''],
      ['dist', `${imports}\n${body}\ntest.run();\n`],
    ] as const) {
      mkdirSync(path.join(repository, 'a', place), { recursive: true });
      writeFileSync(path.join(repository, 'a', place, `${name}.test.${place === 'src' ? 'ts' : 'js'}`), text);
    }
  }
  execFileSync('git', ['init', '--quiet', repository]);
  return repository;
}

/** Returns the exit status and the lines of `npm test` there. */
function npmTest(repository: string, parts: string[] = [], more: NodeJS.ProcessEnv = {}) {
  const { SEED: _seed, ...environment } = { ...process.env, ...more };
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/test.mjs', ...parts], {
    ...{ cwd: repository, encoding: 'utf8', env: { ...environment, TMPDIR: repository } },
  });
  const lines = stdout.trim().split('\n');
  return { status, lines, text: `${stdout}\n${stderr}` };
}

test('a test that fails twice fails the run, which names it at the end', () => {
  const repository = repositoryOf({ good: PASSES, bad: FAILS });
  const { status, lines, text } = npmTest(repository);
  assert.is(status, 1, text);
  assert.is(lines.at(-1), '2 passed, 1 failed', text);
  assert.match(lines.slice(-6).join('\n'), /a\/bad\.test\.js\n.*FAIL.*"fails"\n.*it broke/);
  assert.not.ok(existsSync(path.join(repository, '.git/second-tries')));
});

test('a test that fails at its first run alone passes, and is listed and recorded', () => {
  const repository = repositoryOf({ good: PASSES, unlucky: flaky(path.join(folder, 'mark')) });
  const { status, lines, text } = npmTest(repository);
  assert.is(status, 0, text);
  assert.is(lines.at(-1), '3 passed, 0 failed', text);
  const line = 'a/unlucky.test.js | "is unlucky once" | bad luck';
  assert.equal(lines.slice(-3, -1), ['passed at the second try (file | test | first error):', `  ${line}`]);
  assert.match(readFileSync(path.join(repository, '.git/second-tries'), 'utf8'), `${line}\n`);
});

test('if the linter fails, no test runs again', () => {
  const repository = repositoryOf({ unlucky: flaky(path.join(folder, 'second-mark')) });
  writeFileSync(path.join(repository, 'broken.json'), '{ "a": }');
  const { status, lines, text } = npmTest(repository);
  assert.is(status, 1, text);
  assert.is(lines.at(-1), '0 passed, 2 failed', text);
});

test('a run that takes too long fails, and names the files and tests that were running', () => {
  const repository = repositoryOf({
    good: PASSES,
    hangs: `test('waits for ever', () => new Promise(() => setInterval(() => {}, 1_000)));`,
  });
  const { status, lines, text } = npmTest(repository, [], { SLIPWAY_TEST_RUN_MS: '6000' });
  assert.is(status, 1, text);
  assert.equal(lines.slice(-3), [
    '✗ the run did not end within 0.1 minutes; these files were running:',
    '  a/hangs.test.js: "waits for ever"',
    '2 passed, 1 failed',
  ]);
});

test('a part that no file of the set has is an error', () => {
  const { status, lines, text } = npmTest(repositoryOf({ 'slow.long': PASSES }), ['a/slow']);
  assert.is(status, 1, text);
  assert.match(lines.join('\n'), 'run npm run test:long -- a/slow');
});

const failedFiles = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ file: `${index}`, failed: 1, reasons: ['FAIL  "x"'], output: '' }));

test('if too many files fail, none runs again', async () => {
  let runs = 0;
  const runAlone = async () => {
    runs += 1;
    return { failed: 0 };
  };
  await withSecondTries(failedFiles(MOST_RETRIED + 1), runAlone);
  assert.is(runs, 0);
  await withSecondTries(failedFiles(MOST_RETRIED), runAlone);
  assert.is(runs, MOST_RETRIED);
});

test('a file that fails twice keeps its second result', async () => {
  const [result] = await withSecondTries(failedFiles(1), async (file: string) => ({
    file,
    failed: 2,
    reasons: ['again'],
  }));
  assert.equal(result, { file: '0', failed: 2, reasons: ['again'] });
});

test.run();
