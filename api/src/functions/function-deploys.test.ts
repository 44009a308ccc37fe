import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FunctionDeploys } from './function-deploys.js';
import type { FunctionResources } from './function-resources.js';

test('the longer a deploy takes, the more seldom it is looked at, and never again for a caller who is gone', async () => {
  const object = { metadata: { uid: 'u', name: 'slow', generation: 1, resourceVersion: '1' }, spec: { code: 'x' } };
  let looks = 0;
  const resources = {
    patch: async () => object,
    get: async () => {
      looks += 1;
      return object;
    },
  };
  const deploys = new FunctionDeploys(resources as unknown as FunctionResources);
  const error = await deploys.deploy('ref', object as never, AbortSignal.timeout(3000)).catch((thrown) => thrown);
  assert.is(error.kind, 'caller_gone');
  assert.ok(looks > 1 && looks < 20, String(looks));
  const atTheEnd = looks;
  await new Promise((resolve) => setTimeout(resolve, 1200));
  assert.is(looks, atTheEnd);
});

test.run();
