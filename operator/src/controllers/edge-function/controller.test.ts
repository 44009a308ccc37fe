/**
 * Tests the EdgeFunction controller with a real Kubernetes API. The engine is a substitute in memory, so that a test
 * decides its responses.
 */

import { type EdgeFunction, FINALIZER, type Project, type ProjectService } from '@slipway/crds';
import { Informer, isNotFound } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { FunctionEngine, FunctionOutcome, FunctionRequest } from '../../capabilities/index.js';
import type { Controller } from '../../runtime/controller.js';
import { EventRecorder } from '../../runtime/events.js';
import { Metrics } from '../../runtime/metrics.js';
import { TransientError } from '../../runtime/transient-error.js';
import { deleteAndWait, silentLog, startTestKubernetes, type TestKubernetes } from '../../testing.js';
import { functionCache, functionController } from './controller.js';

interface ReconcilerDeps {
  kubernetes: TestKubernetes;
  engine: Remembering;
  functions: ReturnType<typeof functionCache>;
  opened: { shared: ProjectService[] };
  stop(): Promise<void>;
}

/** Serves the functions of the last requests, from memory. */
class Remembering implements FunctionEngine {
  readonly served = new Map<string, FunctionRequest>();
  answer: FunctionOutcome = { state: 'ready' };
  failure: Error | undefined;
  requests = 0;
  isWanted: (ref: string, name: string) => boolean = () => false;

  keepOnly(isWanted: Remembering['isWanted']): void {
    this.isWanted = isWanted;
  }

  async ensureFunction(request: FunctionRequest): Promise<FunctionOutcome> {
    this.requests += 1;
    if (this.failure) throw this.failure;
    if (request.code.includes('THROW')) throw new TypeError('Cannot read properties of hunter2');
    const bad = request.code.includes('BAD');
    if (bad) return { state: 'refused', problems: [{ message: 'Expression expected', line: 3, column: 28 }] };
    if (this.answer.state === 'ready') this.served.set(`${request.ref}/${request.name}`, request);
    return this.answer;
  }

  async removeFunction(ref: string, name: string): Promise<void> {
    this.served.delete(`${ref}/${name}`);
  }
}

const test = suite<ReconcilerDeps>('edge function controller');
const ref = `fn-${process.pid.toString(36)}`;
const namespace = `p-${ref}`;
const PROJECT = `/apis/slipway.dev/v1alpha1/projects/${ref}`;
const FUNCTIONS = `/apis/slipway.dev/v1alpha1/namespaces/${namespace}/edgefunctions`;

test.before(async (deps) => {
  deps.kubernetes = await startTestKubernetes();
  const { client } = deps.kubernetes;
  const metrics = new Metrics();
  const shared = { client, metrics, log: silentLog };
  const projects = new Informer<Project>({
    ...shared,
    resource: 'projects',
    path: '/apis/slipway.dev/v1alpha1/projects',
  });
  const functions = functionCache(client, metrics, silentLog);
  deps.engine = new Remembering();
  deps.functions = functions;
  const events = new EventRecorder({ client, component: 'test', log: silentLog });
  await client.create('/apis/slipway.dev/v1alpha1/projects', {
    apiVersion: 'slipway.dev/v1alpha1',
    kind: 'Project',
    metadata: { name: ref },
    spec: { owner: 'fn@example.com' },
  });
  await client.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  await Promise.all([projects.start(), functions.start()]);
  const projectUrl = (name: string) => `http://localhost:4000/p/${name}`;
  deps.opened = { shared: ['functions'] };
  const parts = { client, engine: deps.engine, functions, projects, events, log: silentLog, projectUrl };
  const controller: Controller = functionController(
    { ...parts, openedServices: deps.opened, now: () => new Date() },
    metrics,
  );
  controller.start();
  deps.stop = async () => {
    await Promise.all([controller.close(), projects.close(), functions.close()]);
    await events.close();
  };
});

test.after(async ({ kubernetes, stop }) => {
  const { items } = await kubernetes.client.get<{ items: EdgeFunction[] }>(FUNCTIONS);
  for (const { metadata } of items) await deleteAndWait(kubernetes.client, `${FUNCTIONS}/${metadata.name}`);
  await stop();
  await kubernetes.client.delete(`/api/v1/namespaces/${namespace}`);
  await deleteAndWait(kubernetes.client, PROJECT);
  await kubernetes.close();
});

const apply = ({ kubernetes }: ReconcilerDeps, name: string, spec: Partial<EdgeFunction['spec']> & { code: string }) =>
  kubernetes.client.create(FUNCTIONS, {
    apiVersion: 'slipway.dev/v1alpha1',
    kind: 'EdgeFunction',
    metadata: { name },
    spec: { name, ...spec },
  });
const change = (
  { kubernetes }: ReconcilerDeps,
  name: string,
  spec: Partial<EdgeFunction['spec']> | { deployedGeneration: null },
) => kubernetes.client.patch<EdgeFunction>(`${FUNCTIONS}/${name}`, { spec });
const reaches = (
  { kubernetes }: ReconcilerDeps,
  name: string,
  wanted: (object: EdgeFunction) => boolean,
  what: string,
) =>
  until(async () => {
    const object = await kubernetes.client.get<EdgeFunction>(`${FUNCTIONS}/${name}`);
    const isSeen = object.status?.observedGeneration === object.metadata.generation;
    return isSeen && wanted(object) ? object : undefined;
  }, `${name}: ${what}`);
const condition = ({ status }: EdgeFunction, type: string) => status?.conditions?.find((each) => each.type === type);

test('an applied EdgeFunction is deployed, and its status has its URL', async (deps) => {
  await apply(deps, 'applied', { code: 'first' });
  const object = await reaches(deps, 'applied', ({ status }) => status?.phase === 'deployed', 'deployed');
  assert.is(object.status?.url, `http://localhost:4000/p/${ref}/functions/v1/applied`);
  assert.is(condition(object, 'Ready')?.status, 'True');
  assert.is(condition(object, 'Deployed')?.status, 'True');
  assert.ok(object.metadata.finalizers?.includes(FINALIZER));
  assert.is(deps.engine.served.get(`${ref}/applied`)?.code, 'first');
});

test('isWanted returns true for each function with an EdgeFunction in its project', ({ engine }) => {
  const wanted = [engine.isWanted(ref, 'applied'), engine.isWanted(ref, 'other'), engine.isWanted('other', 'applied')];
  assert.equal(wanted, [true, false, false]);
});

test('a status is repaired at once when another client wrote it', async (deps) => {
  const status = { phase: 'error', message: 'what an operator found that led before' };
  await deps.kubernetes.client.patch(`${FUNCTIONS}/applied/status`, { status });
  await reaches(deps, 'applied', (object) => object.status?.phase === 'deployed', 'deployed again');
});

test('an unexpected error of a deployment is in the status, and the former version stays served', async (deps) => {
  await change(deps, 'applied', { code: 'THROW' });
  const object = await reaches(deps, 'applied', ({ status }) => status?.phase === 'error', 'error');
  assert.is(condition(object, 'Ready')?.reason, 'UnexpectedError');
  assert.match(object.status?.message ?? '', /log of the operator/);
  assert.not.match(JSON.stringify(object.status), /hunter2/);
  assert.is(condition(object, 'Deployed')?.status, 'True');
  assert.is(deps.engine.served.get(`${ref}/applied`)?.code, 'first');
  await change(deps, 'applied', { code: 'first' });
  await reaches(deps, 'applied', ({ status }) => status?.phase === 'deployed', 'deployed again');
});

test('code that can’t be deployed is reported by line and column, and the former version stays', async (deps) => {
  await change(deps, 'applied', { code: 'BAD' });
  const object = await reaches(deps, 'applied', ({ status }) => status?.phase === 'error', 'error');
  assert.equal(object.status?.problems, [{ message: 'Expression expected', line: 3, column: 28 }]);
  assert.is(condition(object, 'Ready')?.reason, 'InvalidCode');
  assert.is(condition(object, 'Deployed')?.status, 'True');
  assert.is(deps.engine.served.get(`${ref}/applied`)?.code, 'first');
});

test('code that the API server rejects is reported, and the former version stays served', async (deps) => {
  await apply(deps, 'long', { code: 'short' });
  await reaches(deps, 'long', ({ status }) => status?.phase === 'deployed', 'deployed');
  await change(deps, 'long', { code: '€'.repeat(360_000) });
  const object = await reaches(deps, 'long', ({ status }) => status?.phase === 'error', 'error');
  assert.is(condition(object, 'Ready')?.reason, 'Invalid');
  assert.match(object.status?.message ?? '', /can not be stored: .*1048576 bytes/);
  assert.is(deps.engine.served.get(`${ref}/long`)?.code, 'short');
  await change(deps, 'long', { code: 'shorter' });
  await reaches(deps, 'long', ({ status }) => status?.phase === 'deployed', 'deployed again');
});

test('the operator keeps no code in memory, only its size', async (deps) => {
  await apply(deps, 'cached', { code: 'code-in-the-cache' });
  await reaches(deps, 'cached', ({ status }) => status?.phase === 'deployed', 'deployed');
  const known = deps.functions.get('cached', namespace);
  assert.ok(known?.status?.phase);
  assert.not.match(JSON.stringify(deps.functions.list()), /code-in-the-cache/);
});

test('old versions of a function have a limit of bytes, and the served version stays', async (deps) => {
  const code = (n: number) => String(n).repeat(900_000);
  await apply(deps, 'bytes', { code: code(0) });
  const first = await reaches(deps, 'bytes', ({ status }) => status?.phase === 'deployed', 'deployed');
  const served = first.status?.deployedVersion as number;
  await change(deps, 'bytes', { deployedGeneration: served });
  for (let n = 1; n < 8; n++) {
    const { metadata } = await change(deps, 'bytes', { code: code(n) });
    await reaches(deps, 'bytes', ({ status }) => status?.newestVersion === metadata.generation, `version ${n}`);
  }
  const labelSelector = `slipway.dev/function=${first.metadata.uid}`;
  const maps = `/api/v1/namespaces/${namespace}/configmaps`;
  const versions = await until(async () => {
    const { items } = await deps.kubernetes.client.get<{ items: { data: { code: string } }[] }>(maps, {
      labelSelector,
    });
    const bytes = items.reduce((sum, { data }) => sum + data.code.length, 0);
    return bytes <= 4 * 1024 * 1024 + 2 * 900_000 ? items : undefined;
  }, 'fewer bytes');
  assert.ok(versions.some(({ data }) => data.code === code(0)));
  assert.ok(versions.some(({ data }) => data.code === code(7)));
  await deps.kubernetes.client.delete(`${FUNCTIONS}/bytes`);
});

test('code beyond the project’s limit is not deployed, and the former version stays served', async (deps) => {
  await apply(deps, 'last', { code: 'small' });
  await reaches(deps, 'last', ({ status }) => status?.phase === 'deployed', 'deployed');
  for (let n = 0; n < 16; n++) await apply(deps, `large-${n}`, { code: 'x'.repeat(1_000_000) });
  await until(() => deps.functions.find('namespace', namespace).length > 16 || undefined, 'all to be known');
  await change(deps, 'last', { code: 'y'.repeat(1_000_000) });
  const object = await reaches(deps, 'last', ({ status }) => status?.phase === 'error', 'error');
  assert.is(condition(object, 'Ready')?.reason, 'TooMuchCode');
  assert.match(object.status?.message ?? '', /16 MiB/);
  assert.is(deps.engine.served.get(`${ref}/last`)?.code, 'small');
  // The project exceeds its limit with the refused code. That must not refuse shorter code of another function.
  await change(deps, 'large-0', { code: 'z'.repeat(900_000) });
  await until(() => deps.engine.served.get(`${ref}/large-0`)?.code.startsWith('z') || undefined, 'shorter code');
  for (let n = 0; n < 16; n++) await deps.kubernetes.client.delete(`${FUNCTIONS}/large-${n}`);
});

test('a rollback serves the named version, and deployedGeneration 0 stops serving it', async (deps) => {
  await apply(deps, 'rolled', { code: 'one' });
  const first = await reaches(deps, 'rolled', ({ status }) => status?.phase === 'deployed', 'deployed');
  await change(deps, 'rolled', { code: 'two' });
  await reaches(deps, 'rolled', ({ status }) => status?.phase === 'deployed', 'deployed anew');
  assert.is(deps.engine.served.get(`${ref}/rolled`)?.code, 'two');
  await change(deps, 'rolled', { deployedGeneration: first.status?.deployedVersion as number });
  await reaches(
    deps,
    'rolled',
    ({ status }) => status?.deployedVersion === first.status?.deployedVersion,
    'rolled back',
  );
  assert.is(deps.engine.served.get(`${ref}/rolled`)?.code, 'one');
  await change(deps, 'rolled', { deployedGeneration: 0 });
  await reaches(deps, 'rolled', ({ status }) => status?.phase === 'pending', 'not deployed');
  assert.not(deps.engine.served.has(`${ref}/rolled`));
});

test('the older of two EdgeFunctions has their name, and its deletion gives it to the younger', async (deps) => {
  await apply(deps, 'a-elder', { name: 'shared', code: 'of the elder' });
  await reaches(deps, 'a-elder', ({ status }) => status?.phase === 'deployed', 'deployed');
  await apply(deps, 'b-younger', { name: 'shared', code: 'of the younger' });
  const refused = await reaches(deps, 'b-younger', ({ status }) => status?.phase === 'error', 'refused');
  assert.is(condition(refused, 'Ready')?.reason, 'NameConflict');
  await deleteAndWait(deps.kubernetes.client, `${FUNCTIONS}/a-elder`);
  await reaches(deps, 'b-younger', ({ status }) => status?.phase === 'deployed', 'deployed');
  assert.is(deps.engine.served.get(`${ref}/shared`)?.code, 'of the younger');
});

test('a request to a busy engine is retried until it serves', async (deps) => {
  deps.engine.answer = { state: 'busy', message: 'the data plane does not answer' };
  await apply(deps, 'patient', { code: 'x' });
  await reaches(deps, 'patient', (object) => condition(object, 'Ready')?.reason === 'Deploying', 'waiting');
  deps.engine.answer = { state: 'ready' };
  await reaches(deps, 'patient', ({ status }) => status?.phase === 'deployed', 'deployed');
});

test('a request to a starting engine is retried, without a status or an Event', async (deps) => {
  await apply(deps, 'restarted', { code: 'x' });
  const { status } = await reaches(deps, 'restarted', (object) => object.status?.phase === 'deployed', 'deployed');
  deps.engine.failure = new TransientError('the data plane does not answer');
  const before = deps.engine.requests;
  await change(deps, 'restarted', { verifyJwt: false });
  await until(async () => deps.engine.requests > before + 2 || undefined, 'three attempts');
  const seen = await deps.kubernetes.client.get<EdgeFunction>(`${FUNCTIONS}/restarted`);
  assert.equal(seen.status, status);
  deps.engine.failure = undefined;
  await reaches(deps, 'restarted', (object) => object.status?.phase === 'deployed', 'deployed again');
  const { items } = await deps.kubernetes.client.get<{ items: { reason: string; involvedObject: { name: string } }[] }>(
    `/api/v1/namespaces/${namespace}/events`,
  );
  const reasons = items.filter(({ involvedObject }) => involvedObject.name === 'restarted').map(({ reason }) => reason);
  assert.equal([...new Set(reasons)], ['Deployed']);
});

test('a function with unreadable files is reported until it is deployed again', async (deps) => {
  const message = 'what is on disk of the function is unreadable (current.json is not JSON)';
  await apply(deps, 'damaged', { code: 'x' });
  await reaches(deps, 'damaged', ({ status }) => status?.phase === 'deployed', 'deployed');
  deps.engine.answer = { state: 'busy', message, lost: true };
  await change(deps, 'damaged', { verifyJwt: false });
  const shown = await reaches(deps, 'damaged', ({ status }) => status?.message === message, 'unreadable');
  assert.is(shown.status?.deployedVersion, undefined);
  assert.equal([condition(shown, 'Ready')?.reason, condition(shown, 'Deployed')?.status], ['Unreadable', 'False']);
  deps.engine.answer = { state: 'ready' };
  await reaches(deps, 'damaged', ({ status }) => status?.phase === 'deployed', 'deployed again');
});

test('a function of a closed service is not served, and its status names the setting that opens it', async (deps) => {
  await apply(deps, 'closed', { code: 'kept' });
  await reaches(deps, 'closed', ({ status }) => status?.phase === 'deployed', 'deployed');
  deps.opened.shared = [];
  await change(deps, 'closed', { verifyJwt: false });
  const refused = await reaches(deps, 'closed', ({ status }) => status?.phase === 'error', 'refused');
  assert.match(refused.status?.message ?? '', /functions is not available here.*SLIPWAY_SERVICES_SHARED=functions/);
  assert.is(condition(refused, 'Ready')?.reason, 'NotAvailable');
  assert.is(condition(refused, 'Deployed')?.status, 'False');
  assert.not(deps.engine.served.has(`${ref}/closed`));
  deps.opened.shared = ['functions'];
  await change(deps, 'closed', { verifyJwt: true });
  await reaches(deps, 'closed', ({ status }) => status?.phase === 'deployed', 'deployed again');
  assert.is(deps.engine.served.get(`${ref}/closed`)?.code, 'kept');
});

test('a deleted EdgeFunction is no longer served, and its versions are deleted', async (deps) => {
  await deleteAndWait(deps.kubernetes.client, `${FUNCTIONS}/patient`);
  assert.not(deps.engine.served.has(`${ref}/patient`));
  const map = `/api/v1/namespaces/${namespace}/configmaps/patient-v1`;
  await until(() => deps.kubernetes.client.get(map).then(() => false, isNotFound), 'its version to go');
});

test.run();
