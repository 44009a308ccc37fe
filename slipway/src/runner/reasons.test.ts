/** Tests the summary of failures at the end of a run. If only the end of a log is stored, it shows why tests failed. */
import { spawnSync } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const { reasonsIn } = await import(new URL('../../../scripts/test/file.mjs', import.meta.url).href);

const FILE = `
  import { test } from ${JSON.stringify(import.meta.resolve('uvu'))};
  import * as assert from ${JSON.stringify(import.meta.resolve('uvu/assert'))};
  test('passes', () => {});
  test('compares', () => assert.equal([1], [2], 'the numbers'));
  test('throws', () => { throw new Error('not ready\\nstate: ' + 'x'.repeat(10_000)); });
  test.run();`;

test('each failed test is shown with its name and its message, up to a size limit', () => {
  const environment = { ...process.env, FORCE_COLOR: '0', NO_COLOR: '1' };
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', FILE], { env: environment });
  const [compares, throws, ...others] = reasonsIn(stdout.toString());
  assert.equal(others, []);
  assert.match(compares, /^FAIL {2}"compares"\nthe numbers/);
  assert.match(throws, /^FAIL {2}"throws"\nnot ready\nstate: x/);
  for (const reason of [compares, throws]) assert.ok(reason.length < 800, reason);
  assert.equal(reasonsIn('\n  Total:     1\n  Passed:    1\n'), []);
});

test.run();
