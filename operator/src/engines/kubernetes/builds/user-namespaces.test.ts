import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isAble, type NodeObject } from './user-namespaces.js';

for (const [what, status, expected] of [
  ['reports nothing about its runtime', {}, false],
  ['has a runtime without user namespaces', { runtimeHandlers: [{ name: '' }] }, false],
  ['has user namespaces for the default handler', { runtimeHandlers: [{ features: { userNamespaces: true } }] }, true],
  [
    'has user namespaces for another handler alone',
    { runtimeHandlers: [{ name: 'gvisor', features: { userNamespaces: true } }] },
    false,
  ],
  ['denies them', { runtimeHandlers: [{ name: '', features: { userNamespaces: false } }] }, false],
] as const) {
  test(`a node that ${what} ${expected ? 'can' : 'can not'} run a build in a user namespace`, () => {
    assert.is(isAble({ metadata: { name: 'node' }, status } as unknown as NodeObject), expected);
  });
}

test.run();
