import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { withCondition } from './conditions.js';
import { mergePatch } from './merge-patch.js';

const at = (second: number) => new Date(Date.UTC(2030, 0, 1, 0, 0, second));

test('a condition keeps the time of its last change of status, and takes the newest reason', () => {
  const first = withCondition([], { type: 'Ready', status: 'False', reason: 'A', message: 'a' }, 1, at(0));
  const second = withCondition(first, { type: 'Ready', status: 'False', reason: 'B', message: 'b' }, 2, at(5));
  assert.equal(second, [
    {
      type: 'Ready',
      status: 'False',
      reason: 'B',
      message: 'b',
      observedGeneration: 2,
      lastTransitionTime: '2030-01-01T00:00:00Z',
    },
  ]);
  const third = withCondition(second, { type: 'Ready', status: 'True', reason: 'C', message: '' }, 2, at(9));
  assert.is(third[0]?.lastTransitionTime, '2030-01-01T00:00:09Z');
  assert.is(withCondition(third, { type: 'Other', status: 'True', reason: 'D', message: '' }, 2, at(9)).length, 2);
});

const cases: [string, object, object, object | undefined][] = [
  ['nothing when alike', { a: { b: [1] } }, { a: { b: [1] } }, undefined],
  ['only what changed', { a: 1, b: { c: 1, d: 2 } }, { a: 1, b: { c: 1, d: 3 } }, { b: { d: 3 } }],
  ['null for a removed member', { a: 1, b: 2 }, { b: 2 }, { a: null }],
  ['a list whole', { a: [1, 2] }, { a: [1, 3] }, { a: [1, 3] }],
  ['an object in place of a value', { a: 1 }, { a: { b: 1 } }, { a: { b: 1 } }],
];
for (const [name, before, after, patch] of cases) {
  test(`a merge patch contains ${name}`, () => {
    assert.equal(mergePatch(before as Record<string, unknown>, after as Record<string, unknown>), patch);
  });
}

test.run();
