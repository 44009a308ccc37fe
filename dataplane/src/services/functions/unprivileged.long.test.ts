/**
 * Tests functions of a platform that runs without root, in sandboxes. If root runs the tests, the tests drop root's
 * rights.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isRoot } from '@slipway/sandbox';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isolation } from './isolation.js';

const run = promisify(execFile);
/**
 * Options of `unshare` for an account that owns root's files but has none of root's rights. Another account might not
 * be able to enter this folder.
 */
const WITHOUT_ROOT = ['--user', '--map-user=1000', '--map-group=1000', '--'];
const ISOLATION = `import { isolation } from '${new URL('./isolation.js', import.meta.url)}';
  console.log(isolation().kind);`;

const node = (...args: string[]) =>
  run('unshare', [...WITHOUT_ROOT, process.execPath, ...args], { maxBuffer: 16 * 1024 * 1024 });

const kind = isRoot()
  ? await node('--input-type=module', '--eval', ISOLATION).then(
      ({ stdout }) => stdout.trim(),
      (error: Error) => error.message.split('\n')[0],
    )
  : isolation().kind;

if (!isRoot()) console.log(`# skipped: all tests of functions run without root here (${kind})`);
else if (kind !== 'sandbox') console.log(`# skipped: the system gives no user namespaces (${kind})`);
else {
  for (const name of ['functions', 'kill', 'pods', 'private-ipv6', 'sandbox'])
    test(`functions pass their tests without root: ${name}`, async () => {
      const file = fileURLToPath(new URL(`./${name}.test.js`, import.meta.url));
      const failure = await node(...process.execArgv, file).then(
        () => undefined,
        ({ stdout, stderr }: { stdout: string; stderr: string }) => `${stdout}\n${stderr}`,
      );
      assert.is(failure, undefined, failure?.replaceAll(/^ +(Total|Passed|Skipped):.*$/gm, ''));
    });
}

test.run();
