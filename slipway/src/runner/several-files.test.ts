/** Tests how test files run, with real files and processes: each gets its own counts, and one that hangs is ended. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isAlive, until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const { runTestFiles } = await import(new URL('../../../scripts/test/file.mjs', import.meta.url).href);
const root = fileURLToPath(new URL('../../../', import.meta.url));

let folder: string;
test.before(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
});
test.after(() => rmSync(folder, { recursive: true, force: true }));

interface Result {
  passed: number;
  failed: number;
  skipped: number;
  output: string;
  notes: string[];
  reasons: string[];
  programs: string[][];
}

/** Runs files with these bodies. Returns the result of each file by its name, in the order in which they end. */
async function resultsOf(bodies: Record<string, string>, limitMs = 60_000): Promise<Record<string, Result>> {
  const files = Object.entries(bodies).map(([name, body]) => {
    const file = path.join(folder, `${name}.test.mjs`);
    const imports = `import { suite, test } from 'uvu';`;
    writeFileSync(file, `${imports}\n${body}\ntest.run();\n`);
    return path.relative(root, file);
  });
  const results: Record<string, Result> = {};
  await runTestFiles(files, {
    shared: folder,
    limitMs,
    environment: { SLIPWAY_TEST_OPEN_MS: '500' },
    onBegin: () => {},
    onEnd: (file: string, result: Result) => {
      results[path.basename(file, '.test.mjs')] = result;
    },
  });
  return results;
}

const counts = (results: Record<string, Result>) =>
  Object.fromEntries(Object.entries(results).map(([name, { passed, failed }]) => [name, [passed, failed]]));

const PASSES = `test('passes', () => {});`;

test('each test file of a process counts its own tests, notes and output', async () => {
  const results = await resultsOf({
    one: PASSES,
    two: `console.log('# a note of two');\n${PASSES}\ntest('fails', () => { throw new Error('it broke'); });`,
    skips: `console.log('# skipped: no kubectl');`,
    three: `${PASSES}\ntest('passes too', () => {});`,
  });
  assert.equal(counts(results), { one: [1, 0], two: [1, 1], skips: [0, 0], three: [2, 0] });
  assert.equal([results.two?.notes, results.one?.notes], [['# a note of two'], []]);
  assert.is(results.skips?.skipped, 1);
  assert.match(results.two?.output ?? '', 'it broke');
  assert.not.match(results.three?.output ?? '', 'it broke');
});

test('a failed test has the last lines of the programs that it started, and not those of other tests', async () => {
  const { programs } = (
    await resultsOf({
      logs: `
        import { keepForReport } from ${JSON.stringify(import.meta.resolve('@slipway/testing'))};
        test('one', () => keepForReport('a line of one\\n'));
        test('two', () => {
          for (let line = 1; line <= 40; line++) keepForReport('line ' + line + '\\n');
          throw new Error('it broke');
        });
        test('three', () => {
          keepForReport('a line of three\\n');
          throw new Error('it broke too');
        });
        test('long', () => {
          for (let line = 1; line <= 40; line++) keepForReport('x'.repeat(50_000) + '\\n');
          keepForReport('the last\\n');
          throw new Error('it broke last');
        });`,
    })
  ).logs as Result;
  const [two, three, long, ...others] = programs;
  assert.equal([two?.length, two?.[0], two?.at(-1)], [30, 'line 11', 'line 40']);
  assert.equal(three, ['a line of three']);
  assert.equal([long?.[0]?.length, long?.at(-1)], [400, 'the last']);
  assert.equal(others, []);
});

test('a test file that does not load fails, and the files after it run', async () => {
  const results = await resultsOf({ broken: `import './no-such-module.mjs';`, empty: '', after: PASSES });
  assert.equal(counts(results), { broken: [0, 1], empty: [0, 1], after: [1, 0] });
});

test('a process that ends early fails its test file, and the files after it run in another process', async () => {
  const results = await resultsOf({
    one: PASSES,
    dies: `test('dies', () => process.kill(process.pid, 'SIGKILL'));`,
    after: PASSES,
  });
  assert.equal(counts(results), { one: [1, 0], dies: [0, 1], after: [1, 0] });
});

test('a test file fails when a hook fails or its process does not end by itself', async () => {
  const results = await resultsOf({
    hook: `test.before(() => { throw new Error('no database'); });\n${PASSES}`,
    suite: `const named = suite('a suite'); named.before(() => { throw new Error('no file'); });
      named('passes', () => {}); named.run();`,
    open: `${PASSES}\nsetInterval(() => {}, 1_000);`,
  });
  assert.equal(counts(results), { hook: [0, 1], suite: [0, 1], open: [1, 1] });
  assert.match(results.hook?.output ?? '', 'no database');
  assert.match(results.suite?.output ?? '', 'no file');
  assert.match(results.open?.output ?? '', 'still open: ');
});

test('a test file that hangs is ended with all that it started, and the failure names the test', async () => {
  const pids = path.join(folder, 'pids');
  const hangs = `
    import { spawn } from 'node:child_process';
    import { writeFileSync } from 'node:fs';
    ${PASSES}
    const named = suite('a suite');
    named('waits for ever', async () => {
      // The first is a child of the test, and the second an orphan that only its environment connects with the test.
      const child = spawn('sleep', ['600']);
      const orphan = spawn('sh', ['-c', 'setsid sleep 600 & echo $!']);
      const [pid] = await new Promise((resolve) => orphan.stdout.once('data', (text) => resolve([Number(text)])));
      writeFileSync(${JSON.stringify(pids)}, [process.pid, child.pid, pid].join(' '));
      for (;;);
    });
    named.run();`;
  const results = await resultsOf({ one: PASSES, hangs, after: PASSES }, 2_000);
  assert.equal(counts(results), { one: [1, 0], hangs: [0, 1], after: [1, 0] });
  assert.equal(results.hangs?.reasons, ['FAIL  "waits for ever"\nThe file did not end within 2 s.']);
  const started = readFileSync(pids, 'utf8').split(' ').map(Number);
  assert.is(started.length, 3);
  for (const pid of started) await until(() => !isAlive(pid), `process ${pid} has ended`);
});

test.run();
