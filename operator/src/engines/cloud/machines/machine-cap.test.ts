/** Tests the limit of machines of an installation. A list replaces the provider. */
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Machine } from '../provider.js';
import { labelsOf } from './labels.js';
import { MachineCap } from './machine-cap.js';

const { signal } = new AbortController();
const machineOf = (uid: string) => ({ labels: labelsOf('main', { ref: uid, uid }) }) as unknown as Machine;
/** The machine on which the snapshot for all others is made. */
const IMAGE = { labels: { 'slipway.dev/installation': 'main' } } as unknown as Machine;

function capWith(max: number, listed: Machine[]): MachineCap {
  return new MachineCap({
    max,
    list: async () => {
      await sleep(5);
      return listed;
    },
  });
}

const isRefused = async (cap: MachineCap, uid: string) =>
  cap.claim(uid, signal).then(
    () => false,
    (error: Error) => /has its \d+ machines.*SLIPWAY_HCLOUD_MAX_MACHINES/.test(error.message),
  );

test('machines at the provider and claims count together, and a project has one place', async () => {
  const cap = capWith(3, [machineOf('a'), IMAGE]);
  assert.is(await isRefused(cap, 'b'), false);
  assert.is(await isRefused(cap, 'b'), false);
  assert.is(await isRefused(cap, 'a'), false, 'its machine exists');
  assert.is(await isRefused(cap, 'c'), false);
  assert.is(await isRefused(cap, 'd'), true);
  cap.release('c');
  assert.is(await isRefused(cap, 'd'), false);
});

test('one of several claims at the same moment gets the last place', async () => {
  const cap = capWith(2, [machineOf('a')]);
  const refused = await Promise.all(['b', 'c', 'd'].map((uid) => isRefused(cap, uid)));
  assert.equal(refused, [false, true, true]);
});

test('an error of the provider takes no place, and does not stop later claims', async () => {
  let fails = true;
  const cap = new MachineCap({
    max: 1,
    list: async () => {
      if (fails) throw new Error('unavailable');
      return [];
    },
  });
  await cap.claim('a', signal).then(
    () => assert.unreachable(),
    (error: Error) => assert.is(error.message, 'unavailable'),
  );
  fails = false;
  assert.is(await isRefused(cap, 'b'), false);
  assert.is(await isRefused(cap, 'a'), true);
});

test.run();
