import { ANNOTATION_UNOWNED, type Condition, type Project } from '@slipway/crds';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Services } from '../../capabilities/index.js';
import { projectTypes as types } from '../../types/index.js';
import type { Context, StepOutcome } from './context.js';
import { driftsOf, failuresOf, type PartResult, statusOf } from './status.js';
import { suspendedServices } from './steps/services.js';

const test = suite('the status of a Project');
const now = new Date('2026-01-01T00:00:00Z');
const well: StepOutcome = { state: 'ready', value: undefined };
const restored: StepOutcome = { ...well, restored: ['Service auth, which was deleted'] };
const underWay: StepOutcome = { state: 'progressing', message: 'waiting for pods', lookAgainMs: 1 };
const broken: StepOutcome = { state: 'failed', reason: 'ImagePullBackOff', message: 'no such image', retry: true };

const project = (over: Partial<Project['spec']> = {}): Project => ({
  apiVersion: 'slipway.dev/v1alpha1',
  kind: 'Project',
  metadata: { name: 'shop', generation: 1 },
  spec: { owner: 'owner@example.com', ...over },
});

const part = (condition: string, outcome: StepOutcome | undefined, advisory = false): PartResult => ({
  condition,
  outcome,
  advisory,
});

/** Returns the Project after each of `looks` in turn. */
function after(start: Project, ...looks: PartResult[][]): Project {
  let current = start;
  for (const parts of looks) {
    const shown = parts.every(({ outcome }) => outcome?.state === 'ready') ? { services: {} } : {};
    const deps = { types, projectUrl: (ref: string) => `http://${ref}.test`, now: () => now };
    const context = { project: current, deps, ref: 'shop' } as unknown as Context;
    current = { ...current, status: statusOf(context, parts, { shown }) };
  }
  return current;
}

const conditionIn = ({ status }: Project, type: string) =>
  status?.conditions?.find((condition) => condition.type === type) as Condition;
const saidOf = (object: Project, type: string) => {
  const { status, reason, message } = conditionIn(object, type);
  return [status, reason, message];
};
const auth = (outcome: StepOutcome) => [part('AuthReady', outcome)];
const RESTORED = ['True', 'Restored', 'put back: Service auth, which was deleted'];

const UP = { up: true, status: 'running' };
const CLOSED = { up: false, status: 'unavailable' };

/** Returns the condition Ready of a healthy project with these services. */
function readyWith(services: Services, start = project()): Condition {
  const deps = { types, projectUrl: (ref: string) => `http://${ref}.test`, now: () => now };
  const context = { project: start, deps, ref: 'shop' } as unknown as Context;
  const status = statusOf(context, [part('ServicesReady', well)], { shown: { services } });
  return conditionIn({ ...start, status }, 'Ready');
}

test('Ready names the closed services, and reports that all services respond only when none is closed', () => {
  const some = readyWith({ database: UP, rest: UP, auth: UP, realtime: UP, storage: CLOSED, functions: CLOSED });
  const told = ['True', 'Healthy', 'the open services answer; closed: storage, functions'];
  assert.equal([some.status, some.reason, some.message], told);
  const all = readyWith({ database: UP, rest: UP, auth: UP, realtime: UP, storage: UP, functions: UP });
  assert.is(all.message, 'all services answer');
});

test('Ready names the fix when no account owns the project, with the current spec.owner', () => {
  const marked = (address: string) => {
    const bare = project();
    return { ...bare, metadata: { ...bare.metadata, annotations: { [ANNOTATION_UNOWNED]: address } } };
  };
  const { status, reason, message } = readyWith({ rest: UP }, marked('owner@example.com'));
  assert.equal([status, reason], ['True', 'Healthy']);
  assert.match(
    message,
    /^all services answer; no account owns it: .*owner@example\.com.*POST \/admin\/projects\/shop\/owner$/,
  );
  assert.is(readyWith({ rest: UP }, marked('former@example.com')).message, 'all services answer');
});

test('the condition of a part reports a repair until the part or the spec changes', () => {
  const told = after(project(), auth(well), auth(restored));
  assert.equal(saidOf(told, 'AuthReady'), RESTORED);
  assert.is(told.status?.phase, 'healthy');
  assert.equal(after(told, auth(well), auth(well)), told);
});

test('the condition of a part reports a slow repair until the part is ready', () => {
  const back = { ...underWay, restored: ['Service auth, which was deleted'] };
  const away = after(project(), auth(well), auth(back), auth(underWay));
  assert.equal(saidOf(away, 'AuthReady'), ['False', 'Restoring', 'putting back: Service auth, which was deleted']);
  assert.match(away.status?.message ?? '', /waiting for pods/);
  assert.equal(saidOf(after(away, auth(well)), 'AuthReady'), RESTORED);
});

test('an old repair is not reported after a later change', () => {
  const later = after(project(), auth(well), auth(restored), auth(underWay));
  assert.equal(saidOf(later, 'AuthReady'), ['False', 'Provisioning', 'waiting for pods']);
  assert.equal(saidOf(after(later, auth(well)), 'AuthReady'), ['True', 'Ready', 'ready']);
});

test('a change of the spec ends the report of a repair', () => {
  const told = after(project(), auth(well), auth(restored));
  const changed = { ...told, metadata: { ...told.metadata, generation: 2 } };
  assert.equal(saidOf(after(changed, auth(well)), 'AuthReady'), ['True', 'Ready', 'ready']);
});

test('a repair does not count as drift when the spec has changed since the part was ready', () => {
  const serving = after(project(), auth(well));
  const suspended = { ...serving, metadata: { ...serving.metadata, generation: 2 } };
  assert.equal(driftsOf(suspended, auth(restored)), []);
  const asRequested = after(suspended, auth(restored));
  assert.equal(saidOf(asRequested, 'AuthReady'), ['True', 'Ready', 'ready']);
  assert.equal(driftsOf(asRequested, auth(restored)), ['put back: Service auth, which was deleted']);
});

test('a part that never was ready reports no repair', () => {
  assert.equal(driftsOf(project(), auth(restored)), []);
  assert.equal(saidOf(after(project(), auth(restored)), 'AuthReady'), ['True', 'Ready', 'ready']);
  const well_ = after(project(), auth(well));
  assert.equal(driftsOf(well_, auth(restored)), ['put back: Service auth, which was deleted']);
});

test('a project is ready even if an advisory part is not', () => {
  const parts = [part('ServicesReady', well), part('ImagesCurrent', broken, true)];
  const told = after(project(), parts);
  assert.is(told.status?.phase, 'healthy');
  assert.is(conditionIn(told, 'Ready').status, 'True');
  assert.equal(saidOf(told, 'ImagesCurrent'), ['False', 'ImagePullBackOff', 'no such image']);
});

test('each part that starts to fail has one Event, except the part that Ready reports', () => {
  const parts = [part('AuthReady', broken), part('RestReady', broken), part('ImagesCurrent', broken, true)];
  const said = { reason: 'ImagePullBackOff', message: 'no such image' };
  assert.equal(failuresOf(project(), parts), [said, said]);
  assert.equal(failuresOf(after(project(), parts), parts), []);
});

test('a suspended project reports its suspension in Ready and in its paused conditions, and in no others', () => {
  const parts = ['KeysReady', 'DatabaseReady', 'ServicesReady', 'AuthReady', 'RouteReady'].map((type) =>
    part(type, well),
  );
  assert.is(after(project({ suspendedByOwner: true }), parts).status?.phase, 'suspended');
  const { status } = after(project({ suspend: true, suspendedByOwner: false }), parts);
  assert.is(status?.phase, 'suspended');
  const said = Object.fromEntries(
    status?.conditions?.map(({ type, status, reason }) => [type, `${status} ${reason}`]) ?? [],
  );
  assert.equal(said, {
    Ready: 'False Suspended',
    KeysReady: 'True Ready',
    DatabaseReady: 'False Suspended',
    ServicesReady: 'False Suspended',
    AuthReady: 'False Suspended',
    RouteReady: 'True Ready',
  });
});

test('a resumed project is provisioning until it responds, and in error if its suspension fails', () => {
  const suspended = after(project({ suspend: true }), [part('ServicesReady', well)]);
  const status = { ...suspended.status, services: suspendedServices() };
  const resumed = after({ ...suspended, spec: { owner: 'o@example.com' }, status }, [part('ServicesReady', underWay)]);
  assert.is(resumed.status?.phase, 'provisioning');
  assert.is(after(resumed, [part('ServicesReady', well)]).status?.phase, 'healthy');
  assert.is(after(suspended, [part('ServicesReady', broken)]).status?.phase, 'error');
});

test('a project that was healthy is provisioning during the maintenance of its machine', () => {
  const work = {
    state: 'progressing',
    reason: 'Maintenance',
    message: 'making the snapshot one',
    lookAgainMs: 1,
  } as const;
  const served = { ...project({}), status: { services: { database: { up: true, status: 'running' } } } };
  const { status } = after(served, [part('MachineReady', work)]);
  assert.equal([status?.phase, status?.message], ['provisioning', 'making the snapshot one']);
  assert.is(after(served, [part('MachineReady', underWay)]).status?.phase, 'error');
});

test.run();
