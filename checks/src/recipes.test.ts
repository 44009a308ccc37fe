/** Checks that every path in docs/changing.md exists. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { root } from './sources.js';

test('each path of docs/changing.md exists', () => {
  const page = readFileSync(path.join(root, 'docs/changing.md'), 'utf8');
  const paths = [...page.matchAll(/`([\w.-]+\/[\w./-]*)`/g)].map(([, named]) => named as string);
  assert.ok(paths.length > 40);
  assert.equal(
    paths.filter((named) => !existsSync(path.join(root, named))),
    [],
  );
});

test.run();
