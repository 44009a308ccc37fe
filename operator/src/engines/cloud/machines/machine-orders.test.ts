/** Tests how many requests looks at machines cost at the provider. */
import type { KubeClient } from '@slipway/kubernetes';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Machine, MachineProvider, MachineState } from '../provider.js';
import { MachineOrders } from './machine-orders.js';

const { signal } = new AbortController();
const machineOf = (id: number, state: MachineState): Machine => ({
  id: String(id),
  name: `m${id}`,
  labels: {},
  state,
  address: undefined,
  type: 'cpx12',
  cores: 2,
  memoryGb: 4,
  diskGb: 80,
  location: 'fsn1',
  createdAt: new Date(0),
  firewalls: [],
});

function ordersOf(machines: Machine[]) {
  const calls: string[] = [];
  const provider = {
    list: async () => {
      calls.push('list');
      return machines;
    },
    observe: async (id: string) => {
      calls.push(`observe ${id}`);
      return machines.find((machine) => machine.id === id);
    },
  } as unknown as MachineProvider;
  const client = {} as KubeClient;
  const log = pino({ level: 'silent' });
  const options = { provider, client, installation: 'test', packs: '/nowhere', snapshot: false, maxMachines: 9, log };
  return { calls, orders: new MachineOrders(options) };
}

test('looks at 100 machines that run share one list', async () => {
  const { calls, orders } = ordersOf(Array.from({ length: 100 }, (_, id) => machineOf(id, 'running')));
  const looks = Array.from({ length: 100 }, (_, id) => orders.look(String(id), 'running', signal));
  const found = await Promise.all(looks);
  assert.ok(found.every((machine) => machine?.state === 'running'));
  assert.equal(calls, ['list']);
});

test('a machine that the list lacks, or shows in another state, is observed', async () => {
  const { calls, orders } = ordersOf([machineOf(1, 'off')]);
  assert.is((await orders.look('1', 'running', signal))?.state, 'off');
  assert.is(await orders.look('2', 'running', signal), undefined);
  assert.is((await orders.look('1', 'off', signal))?.state, 'off');
  assert.equal(calls, ['list', 'observe 1', 'observe 2']);
});

test('a second reboot soon after the first one is not allowed', () => {
  const { orders } = ordersOf([]);
  assert.equal([orders.claimReboot(), orders.claimReboot()], [true, false]);
});

test.run();
