import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Counts } from './counts.js';

test('Counts counts by key and in total, and drops a key at zero', () => {
  const counts = new Counts();
  for (const key of ['a', 'a', 'b']) counts.add(key);
  assert.equal([counts.of('a'), counts.of('b'), counts.of('c'), counts.all], [2, 1, 0, 3]);
  for (const key of ['a', 'b', 'a', 'a', 'c']) counts.remove(key);
  assert.equal([counts.of('a'), counts.of('b'), counts.all], [0, 0, 0]);
});

test('Counts applies the limits of one key and of all keys', () => {
  const counts = new Counts();
  const share = { most: 3, ofOne: 2 };
  for (const _ of [1, 2]) counts.add('a');
  assert.equal([counts.hasRoom('a', share), counts.hasRoom('b', share)], [false, true]);
  counts.add('b');
  assert.not(counts.hasRoom('c', share));
  counts.remove('a');
  assert.ok(counts.hasRoom('c', share));
});

test('a share of the free places leaves some to the next key, and at least one to a key without places', () => {
  const counts = new Counts();
  const share = { most: 16, perFree: 1 / 4 };
  const takeAll = (key: string) => {
    while (counts.hasRoom(key, share)) counts.add(key);
    return counts.of(key);
  };
  assert.equal(['a', 'b', 'c', 'd'].map(takeAll), [4, 3, 2, 2]);
  for (const key of ['e', 'f', 'g', 'h', 'i']) takeAll(key);
  assert.is(counts.all, 16);
  assert.not(counts.hasRoom('j', share));
});

test.run();
