/** Tests which snapshots are made and deleted, with a fake provider that only lists, creates and deletes snapshots. */
import type { KubeClient } from '@slipway/kubernetes';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineProject } from '../../../capabilities/index.js';
import type { Labels, Machine, MachineProvider, Snapshot, SnapshotRequest } from '../provider.js';
import { ProviderError } from '../provider-error.js';
import { retainedLabels, snapshotLabels } from './labels.js';
import { MachineOrders } from './machine-orders.js';
import { ProjectSnapshots, planSnapshots, type RecordHolder } from './project-snapshots.js';
import type { MachineRecord } from './record.js';

const owner = { ref: 'r', uid: 'u' };
const { signal } = new AbortController();
const snapshot = (id: string, name: string, more: Partial<Snapshot> = {}): Snapshot => ({
  id,
  labels: snapshotLabels('test', owner, name),
  description: 'd',
  isComplete: true,
  diskGb: 40,
  createdAt: new Date(Number(id)),
  ...more,
});

const retained: Snapshot = { ...snapshot('9', 'x'), labels: retainedLabels('test', owner) };
const idsOf = (list: readonly Snapshot[]) => list.map(({ id }) => id);

test('planSnapshots makes names that are missing, and deletes those that are not wanted', () => {
  const found = [snapshot('1', 'a'), snapshot('2', 'b'), retained];
  const plan = planSnapshots(['a', 'c'], { a: '1', b: '2' }, found);
  assert.equal([plan.create, idsOf(plan.delete), plan.lost], [['c'], ['2'], []]);
  assert.equal(plan.known, { a: '1', b: '2' });
  assert.equal(planSnapshots(['a'], { a: '1', b: '2' }, [snapshot('1', 'a')]).known, { a: '1' });
});

test('planSnapshots continues a creation that began, and clears one that never ends', () => {
  const half = snapshot('5', 'a', { isComplete: false });
  assert.equal(planSnapshots(['a'], { a: '' }, [half], { now: 60_000 }).create, ['a']);
  assert.equal(planSnapshots(['a'], { a: '' }, [half], { now: 60_000 }).delete, []);
  const stale = planSnapshots(['a'], { a: '' }, [half], { now: 2 * 60 * 60_000 });
  assert.equal([stale.create, idsOf(stale.delete)], [['a'], ['5']]);
});

test('planSnapshots keeps the recorded one of two with a name', () => {
  const two = [snapshot('1', 'a', { isComplete: false }), snapshot('2', 'a'), snapshot('3', 'a')];
  assert.equal(idsOf(planSnapshots(['a'], { a: '3' }, two, { now: 0 }).delete), ['1', '2']);
  assert.equal(idsOf(planSnapshots(['a'], { a: '' }, two, { now: 0 }).delete), ['1', '3']);
});

test('planSnapshots does not make a snapshot again that somebody deleted at the provider', () => {
  const { lost, create, known } = planSnapshots(['a'], { a: '1' }, []);
  assert.equal([lost, create, known], [['a'], [], { a: '1' }]);
});

test('planSnapshots makes a snapshot with the name of a member of every object', () => {
  const { create, lost, known } = planSnapshots(['constructor'], {}, []);
  assert.equal([create, lost, known], [['constructor'], [], {}]);
});

test('planSnapshots does not delete the snapshot from which a machine is made', () => {
  assert.equal(planSnapshots([], { a: '1' }, [snapshot('1', 'a')], { used: '1' }).delete, []);
});

/** The snapshots of a fake provider, and a holder of the record. */
function bedOf(names: string[], list: Snapshot[] = []) {
  const calls: string[] = [];
  const provider = {
    listSnapshots: async (_labels: Labels) => {
      calls.push('list');
      return [...list];
    },
    createSnapshot: async (_machine: string, { labels }: SnapshotRequest) => {
      calls.push('create');
      if (fail.error) throw fail.error;
      const made = snapshot('7', labels['slipway.dev/snapshot'] as string);
      list.push(made);
      return made;
    },
    deleteSnapshot: async (id: string) => {
      calls.push(`delete ${id}`);
      list.splice(0, list.length, ...list.filter((each) => each.id !== id));
    },
  } as unknown as MachineProvider;
  const fail: { error?: Error } = {};
  const log = pino({ level: 'silent' });
  const options = {
    provider,
    client: {} as KubeClient,
    installation: 'test',
    packs: '/x',
    snapshot: false,
    maxMachines: 9,
    log,
  };
  const snapshots = new ProjectSnapshots(new MachineOrders(options), { firstMs: 60_000, maxMs: 60_000 });
  let record = {} as MachineRecord;
  const holder: RecordHolder = {
    project: { ...owner, machine: { snapshots: Object.fromEntries(names.map((n) => [n, {}])) } } as EngineProject,
    get record() {
      return record;
    },
    change: async (change) => {
      record = { ...record, ...change } as MachineRecord;
      return record;
    },
  };
  return { calls, snapshots, holder, fail };
}

test('a project without snapshots costs no request', async () => {
  const { calls, snapshots, holder } = bedOf([]);
  assert.is(await snapshots.plan(holder, true, signal), undefined);
  assert.equal(snapshots.view(holder.project, holder.record), []);
  assert.equal(calls, []);
});

test('a complete snapshot costs one list', async () => {
  const { calls, snapshots, holder } = bedOf(['a'], [snapshot('1', 'a')]);
  for (let look = 0; look < 5; look += 1) await snapshots.plan(holder, true, signal);
  assert.equal(calls, ['list']);
  assert.is(snapshots.view(holder.project, holder.record)?.[0]?.state, 'complete');
  assert.equal(holder.record.snapshots, '{"a":"1"}');
});

test('a snapshot that is made late, after its name was removed, is found and deleted', async () => {
  const list = [snapshot('1', 'a')];
  const before = bedOf([], list);
  await before.holder.change({ snapshots: '{"a":"1"}' });
  const plan = await before.snapshots.plan(before.holder, true, signal);
  await before.snapshots.delete(plan as NonNullable<typeof plan>, signal);
  await before.snapshots.read(before.holder, signal);
  assert.is(before.holder.record.snapshots, '{}');
  const late = bedOf([], [snapshot('2', 'a')]);
  await late.holder.change({ snapshots: '{}' });
  const found = await late.snapshots.plan(late.holder, true, signal);
  assert.equal(idsOf(found?.delete ?? []), ['2']);
  const unused = bedOf([]);
  await unused.holder.change({ snapshots: '{}' });
  await unused.snapshots.plan(unused.holder, true, signal);
  assert.is(unused.holder.record.snapshots, undefined);
  await unused.snapshots.plan(unused.holder, true, signal);
  assert.equal(unused.calls, ['list']);
});

test('a snapshot waits for data, and costs one list', async () => {
  const { calls, snapshots, holder } = bedOf(['a']);
  for (let look = 0; look < 5; look += 1) await snapshots.plan(holder, false, signal);
  assert.equal(calls, ['list']);
  assert.is(snapshots.view(holder.project, holder.record)?.[0]?.state, 'waiting');
});

test('a creation that failed is shown, and not tried again before its pause', async () => {
  const { calls, snapshots, holder, fail } = bedOf(['a']);
  fail.error = new ProviderError('limit-reached', 'Too many.');
  const due = async () => {
    const plan = await snapshots.plan(holder, true, signal);
    return plan ? snapshots.due(plan) : [];
  };
  assert.equal(await due(), ['a']);
  await snapshots.create('a', { id: '1' } as Machine, holder, signal);
  assert.equal(await due(), []);
  const [view] = snapshots.view(holder.project, holder.record) ?? [];
  assert.is(view?.state, 'failed');
  assert.match(view?.message ?? '', /^Too many\./);
  assert.equal(
    calls.filter((call) => call === 'create'),
    ['create'],
  );
});

test.run();
