/** Tests which machines at the provider belong to no project, with a stand-in of the provider. */
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Labels, Machine, MachineProvider } from '../provider.js';
import { goldenLabels, labelsOf, labelsOfInstallation } from './labels.js';
import { MachineSweep, orphansOf } from './sweep.js';

const now = new Date('2026-01-02T00:00:00Z');
const HOUR_MS = 60 * 60_000;

const machineOf = (name: string, more: Partial<Machine> = {}): Machine => ({
  id: name,
  name,
  labels: labelsOf('i', { ref: name, uid: `uid-of-${name}` }),
  state: 'running',
  address: undefined,
  type: 'cpx22',
  cores: 2,
  memoryGb: 4,
  diskGb: 80,
  location: 'fsn1',
  createdAt: new Date(now.getTime() - 2 * HOUR_MS),
  firewalls: [],
  ...more,
});
const found = (...machines: Machine[]) =>
  orphansOf(machines, (uid) => uid === 'uid-of-known', now).map(({ name }) => name);

test('a machine whose project does not exist is found, and one of a project is not', () => {
  assert.equal(found(machineOf('known'), machineOf('gone')), ['gone']);
});

test('a machine of a former project of the same ref is found', () => {
  const labels = labelsOf('i', { ref: 'known', uid: 'uid-of-a-former-one' });
  assert.equal(found(machineOf('known'), machineOf('former', { labels })), ['former']);
});

test('a young machine and one that is being deleted are left out', () => {
  const createdAt = new Date(now.getTime() - HOUR_MS / 2);
  assert.equal(found(machineOf('young', { createdAt }), machineOf('going', { state: 'deleting' })), []);
});

test('a machine that was to make a snapshot is found when it is old', () => {
  assert.equal(found(machineOf('image', { labels: goldenLabels('i', 'release') })), ['image']);
});

async function swept(deletes: boolean, ...machines: Machine[]) {
  const deleted: Labels[] = [];
  const counts: number[] = [];
  const provider = {
    list: async () => machines,
    delete: async (labels: Labels) => void deleted.push(labels),
  } as unknown as MachineProvider;
  const isProject = (uid: string) => uid === 'uid-of-known';
  const onCount = (count: number) => counts.push(count);
  const log = pino({ level: 'silent' });
  await new MachineSweep({ provider, installation: 'i', isProject, deletes, onCount, log }).run(now);
  return { deleted, counts };
}

test('machines of no project are counted, and deleted only if the setting says so', async () => {
  const machines = [machineOf('known'), machineOf('gone')];
  assert.equal(await swept(false, ...machines), { deleted: [], counts: [1] });
  const labels = labelsOf('i', { ref: 'gone', uid: 'uid-of-gone' });
  assert.equal(await swept(true, ...machines), { deleted: [labels], counts: [0] });
});

test('a machine with the name of the installation alone is never deleted, because its labels select all', async () => {
  const labels = labelsOfInstallation('i');
  assert.equal(await swept(true, machineOf('known'), machineOf('by-hand', { labels })), { deleted: [], counts: [1] });
});

test.run();
