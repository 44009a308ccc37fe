/** Tests what the status shows of a project's machine. */
import type { Project } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineProject, Machines, MachineView } from '../../../capabilities/index.js';
import type { Context } from '../context.js';
import type { Shown } from '../project-type.js';
import { ensureMachine } from './machine.js';

const UNITS = { auth: { status: 'running', mainPid: 7 } } as const;
const RESTARTS = { auth: { number: 3, at: '2026-11-29T10:00:00.000Z' } };
const KNOWN: MachineView = { id: '1', units: UNITS, unitsObservedAt: '2026-11-29T10:00:00.000Z', restarts: RESTARTS };

/** Returns the machine in the status, and the project that the capability got. */
async function shownFor(view: MachineView | undefined, before: MachineView, spec: Partial<Project['spec']> = {}) {
  let project: EngineProject | undefined;
  const ensure: Machines['ensure'] = async (wanted) => {
    project = wanted;
    return { outcome: { state: 'ready', value: undefined }, parts: [], view, durations: '' };
  };
  const owned = {
    metadata: { name: 'own', uid: 'u' },
    spec: { owner: 'ann@example.com', type: 'dedicated', ...spec },
    status: { server: before },
  };
  const shown: Shown = {};
  await ensureMachine({ project: owned } as unknown as Context, { ensure } as Machines, shown);
  return { server: shown.server, project };
}

test('the units of a machine stay in the status until a new operator has read them', async () => {
  assert.equal((await shownFor({ id: '1', type: 'cx23' }, KNOWN)).server, { ...KNOWN, type: 'cx23' });
  const failed = { auth: { number: 4, at: '2026-11-29T10:01:00.000Z', error: 'no connection' } };
  const { server } = await shownFor({ id: '1', restarts: failed }, KNOWN);
  assert.equal(server, { ...KNOWN, restarts: failed });
});

test('a machine that was read, and another machine, do not get the units of before', async () => {
  const read: MachineView = { id: '1', units: {}, unitsObservedAt: '2026-11-29T10:01:00.000Z' };
  assert.equal((await shownFor(read, KNOWN)).server, read);
  assert.equal((await shownFor({ id: '2' }, KNOWN)).server, { id: '2' });
  assert.equal((await shownFor(undefined, KNOWN)).server, undefined);
});

test('the capability gets what is requested of the machine', async () => {
  const machine = { restarts: { nginx: 2 }, provision: 5 };
  const { project } = await shownFor(undefined, KNOWN, { machine });
  assert.equal(project?.machine, machine);
});

test.run();
