import type { Condition, Project } from '@slipway/crds';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Context, StepOutcome } from './context.js';
import { driftsOf, failuresOf, type PartResult, statusOf, suspendedServices } from './status.js';

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

/** The Project as it is after each of `looks` in turn. */
function after(start: Project, ...looks: PartResult[][]): Project {
  let current = start;
  for (const parts of looks) {
    const found = parts.every(({ outcome }) => outcome?.state === 'ready') ? { services: {} } : {};
    const deps = { projectUrl: (ref: string) => `http://${ref}.test`, now: () => now };
    const context = { project: current, deps, ref: 'shop', found } as unknown as Context;
    current = { ...current, status: statusOf(context, parts) };
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

test('what was put back is told by the condition, and stays told while nothing else happens', () => {
  const told = after(project(), auth(well), auth(restored));
  assert.equal(saidOf(told, 'AuthReady'), RESTORED);
  assert.is(told.status?.phase, 'healthy');
  assert.equal(after(told, auth(well), auth(well)), told);
});

test('what was put back and takes its time is told until it is there', () => {
  const back = { ...underWay, restored: ['Service auth, which was deleted'] };
  const away = after(project(), auth(well), auth(back), auth(underWay));
  assert.equal(saidOf(away, 'AuthReady'), ['False', 'Restoring', 'putting back: Service auth, which was deleted']);
  assert.match(away.status?.message ?? '', /waiting for pods/);
  assert.equal(saidOf(after(away, auth(well)), 'AuthReady'), RESTORED);
});

test('what was put back long ago is not told of what happens later', () => {
  const later = after(project(), auth(well), auth(restored), auth(underWay));
  assert.equal(saidOf(later, 'AuthReady'), ['False', 'Provisioning', 'waiting for pods']);
  assert.equal(saidOf(after(later, auth(well)), 'AuthReady'), ['True', 'Ready', 'ready']);
});

test('a change of the spec ends what is told of a restoration', () => {
  const told = after(project(), auth(well), auth(restored));
  const changed = { ...told, metadata: { ...told.metadata, generation: 2 } };
  assert.equal(saidOf(after(changed, auth(well)), 'AuthReady'), ['True', 'Ready', 'ready']);
});

test('what never was well was not put back', () => {
  assert.equal(driftsOf(project(), auth(restored)), []);
  assert.equal(saidOf(after(project(), auth(restored)), 'AuthReady'), ['True', 'Ready', 'ready']);
  const well_ = after(project(), auth(well));
  assert.equal(driftsOf(well_, auth(restored)), ['put back: Service auth, which was deleted']);
});

test('a part that only tells something makes no project unready', () => {
  const parts = [part('ServicesReady', well), part('ImagesCurrent', broken, true)];
  const told = after(project(), parts);
  assert.is(told.status?.phase, 'healthy');
  assert.is(conditionIn(told, 'Ready').status, 'True');
  assert.equal(saidOf(told, 'ImagesCurrent'), ['False', 'ImagePullBackOff', 'no such image']);
});

test('each part that begins to fail has an Event, once, but for the one that Ready tells of', () => {
  const parts = [part('AuthReady', broken), part('RestReady', broken), part('ImagesCurrent', broken, true)];
  const said = { reason: 'ImagePullBackOff', message: 'no such image' };
  assert.equal(failuresOf(project(), parts), [said, said]);
  assert.equal(failuresOf(after(project(), parts), parts), []);
});

test('a suspended project says so of itself and of what stands still, and of nothing else', () => {
  const parts = ['KeysReady', 'DatabaseReady', 'ServicesReady', 'AuthReady', 'RouteReady'].map((type) =>
    part(type, well),
  );
  const { status } = after(project({ suspend: true }), parts);
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

test('a project that is resumed is being provisioned until it answers, and one whose suspension fails is in error', () => {
  const suspended = after(project({ suspend: true }), [part('ServicesReady', well)]);
  const status = { ...suspended.status, services: suspendedServices() };
  const resumed = after({ ...suspended, spec: { owner: 'o@example.com' }, status }, [part('ServicesReady', underWay)]);
  assert.is(resumed.status?.phase, 'provisioning');
  assert.is(after(resumed, [part('ServicesReady', well)]).status?.phase, 'healthy');
  assert.is(after(suspended, [part('ServicesReady', broken)]).status?.phase, 'error');
});

test.run();
