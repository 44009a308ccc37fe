import { readFile } from 'node:fs/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { manifestFiles } from './manifests.js';

for (const { file, yaml } of manifestFiles()) {
  test(`manifests/crds/${file} is what crds/src generates`, async () => {
    const stored = await readFile(new URL(`../../manifests/crds/${file}`, import.meta.url), 'utf8');
    assert.is(stored, yaml, 'stale: run `npm run generate`');
  });
}

test.run();
