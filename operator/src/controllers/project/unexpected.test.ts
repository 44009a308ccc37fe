/**
 * Tests what the Project controller reports and logs, with a real Kubernetes API: unexpected errors of a step, and
 * repaired drift. The capabilities throw or report a repair on request.
 */
import { API_VERSION, type Project } from '@slipway/crds';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Capabilities, EngineOutcome, ServicesOutcome } from '../../capabilities/index.js';
import { noBuilds } from '../../engines/no-builds.js';
import type { Controller } from '../../runtime/controller.js';
import { EventRecorder } from '../../runtime/events.js';
import { Metrics } from '../../runtime/metrics.js';
import { startTestKubernetes, type TestKubernetes } from '../../testing.js';
import { projectTypes } from '../../types/index.js';
import { projectCaches, projectController } from './controller.js';
import { PROJECTS, projectPath } from './resources.js';

type Verb = 'isolation' | 'database' | 'services' | 'removal';

interface ReconcilerDeps {
  kubernetes: TestKubernetes;
  capabilities: Throwing;
  metrics: Metrics;
  /** The log lines, as JSON. */
  lines: string[];
  stop(): Promise<void>;
}

const SECRET = 'postgresql://owner:hunter2@db/p-x';
const READY = { state: 'ready', value: undefined } as const;

/** Capabilities that succeed, except for the method that throws. */
class Throwing implements Capabilities {
  broken: Verb | undefined;
  /** The repairs that the next look at a database reports. */
  restored: string[] = [];

  isolation = { ensure: () => this.#answer('isolation', READY) };
  databases = {
    addressOf: () => ({ host: 'db', port: 5432, publicAddress: 'db:5432' }),
    recordedId: async () => undefined,
    ensure: () => this.#answer<EngineOutcome>('database', { ...READY, restored: this.restored.splice(0) }),
    usage: async () => undefined,
    remove: () => this.#answer('removal', READY),
  };
  services = {
    ensure: () => this.#answer<ServicesOutcome>('services', { outcome: running, parts: [] }),
    verifiersAccept: async (): Promise<EngineOutcome> => READY,
    storageUsage: async () => undefined,
    remove: async () => undefined,
  };

  builds = noBuilds('not in this test');

  async #answer<T = EngineOutcome>(verb: Verb, answer: T): Promise<T> {
    if (this.broken === verb) throw new TypeError(`Cannot read properties of ${SECRET}`);
    return answer;
  }
}

const running: ServicesOutcome['outcome'] = {
  state: 'ready',
  value: { services: { auth: { up: true, status: 'running' } } },
};

const test = suite<ReconcilerDeps>('an exception that no step of a Project expects');
const run = `u${process.pid.toString(36)}`;

test.before(async (deps) => {
  deps.kubernetes = await startTestKubernetes();
  deps.metrics = new Metrics();
  deps.capabilities = new Throwing();
  deps.lines = [];
  const log = pino({}, { write: (line: string) => deps.lines.push(line) });
  const { client } = deps.kubernetes;
  // Leader election, which does not run in this test, otherwise creates this namespace.
  const metadata = { name: 'slipway-system' };
  await client.create<object>('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
  const caches = projectCaches(client, deps.metrics, log, () => false);
  await Promise.all(Object.values(caches).map((cache) => cache.start()));
  const events = new EventRecorder({ client, component: 'test', log });
  const projectUrl = (ref: string) => `http://localhost:4000/p/${ref}`;
  const parts = {
    client,
    capabilities: deps.capabilities,
    types: projectTypes,
    places: { publicUrl: 'http://localhost:4000' },
    events,
    log,
    projectUrl,
    now: () => new Date(),
    ...caches,
  };
  const controller: Controller = projectController(parts, deps.metrics, () => {});
  controller.start();
  deps.stop = async () => {
    await Promise.all([controller.close(), ...Object.values(caches).map((cache) => cache.close())]);
    await events.close();
  };
});

test.after(async ({ kubernetes, stop }) => {
  await stop();
  await kubernetes.close();
});

async function createProject({ kubernetes }: ReconcilerDeps, name: string): Promise<string> {
  const ref = `${run}-${name}`;
  await kubernetes.client.create<Project>(PROJECTS, {
    apiVersion: API_VERSION,
    kind: 'Project',
    metadata: { name: ref },
    spec: { owner: 'ann@example.com', name },
  });
  return ref;
}

const reaches = ({ kubernetes }: ReconcilerDeps, ref: string, wanted: (project: Project) => boolean, what: string) =>
  until(async () => {
    const project = await kubernetes.client.get<Project>(projectPath(ref));
    return wanted(project) ? project : undefined;
  }, `${ref}: ${what}`);

const isHealthy = ({ status }: Project) => status?.phase === 'healthy';
const conditionOf = ({ status }: Project, type: string) =>
  status?.conditions?.find((condition) => condition.type === type);
const isUnexpected = (project: Project) => conditionOf(project, 'Ready')?.reason === 'UnexpectedError';

/** Changes the Project, which starts a reconcile. */
const touch = ({ kubernetes }: ReconcilerDeps, ref: string, spec: object) =>
  kubernetes.client.patch<Project>(projectPath(ref), { spec });

for (const [verb, condition] of [
  ['isolation', 'IsolationReady'],
  ['database', 'DatabaseReady'],
  ['services', 'ServicesReady'],
] as const) {
  test(`a healthy Project reports an error while ${verb} throws, and is healthy afterwards`, async (deps) => {
    const ref = await createProject(deps, condition.toLowerCase());
    const healthy = await reaches(deps, ref, isHealthy, 'healthy');
    deps.capabilities.broken = verb;
    const { metadata } = await touch(deps, ref, { plan: 'pro' });
    const failed = await reaches(deps, ref, isUnexpected, 'failed');
    assert.is(failed.status?.phase, 'error');
    assert.is(failed.status?.observedGeneration, metadata.generation);
    assert.is(conditionOf(failed, condition)?.status, 'False');
    assert.is(conditionOf(failed, condition)?.reason, 'UnexpectedError');
    assert.equal(failed.status?.services, healthy.status?.services, 'the services were not checked');
    if (verb !== 'services') {
      const services = conditionOf(failed, 'ServicesReady');
      assert.equal(services, conditionOf(healthy, 'ServicesReady'), 'a later step keeps its last known state');
    }
    assert.not(JSON.stringify(failed.status).includes('hunter2'));
    assert.match(failed.status?.message ?? '', /log of the operator/);
    deps.capabilities.broken = undefined;
    await reaches(deps, ref, isHealthy, 'healthy again');
  });
}

test('a deleted Project reports an error while its removal throws, and is deleted afterwards', async (deps) => {
  const { client } = deps.kubernetes;
  const ref = await createProject(deps, 'removal');
  await reaches(deps, ref, isHealthy, 'healthy');
  deps.capabilities.broken = 'removal';
  await client.delete(projectPath(ref));
  const failed = await reaches(deps, ref, ({ status }) => /log of the operator/.test(status?.message ?? ''), 'failed');
  assert.is(failed.status?.phase, 'deleting');
  assert.not(JSON.stringify(failed.status).includes('hunter2'));
  deps.capabilities.broken = undefined;
  const isGone = async () => !(await client.get(projectPath(ref)).catch(() => undefined));
  await until(isGone, 'the Project to be deleted');
});

test('an unexpected error is logged with its stack, and counted separately from retries', async ({
  lines,
  metrics,
}) => {
  const line = lines.map((text) => JSON.parse(text)).find(({ msg }) => msg === 'reconcile failed unexpectedly');
  assert.match(line.stack, /TypeError/);
  assert.match(line.stack, /unexpected\.test/);
  assert.is(line.level, 50);
  const text = await metrics.registry.metrics();
  assert.match(text, /slipway_reconcile_unexpected_errors_total\{controller="project",step="services"\} [1-9]/);
  assert.match(text, /slipway_reconcile_total\{controller="project",result="unexpected"\} [1-9]/);
  assert.not.match(text, /slipway_queue_retries_total\{controller="project"\} [1-9]/);
});

test('repaired drift is logged, but not the repair that a requested resumption makes', async (deps) => {
  const ref = await createProject(deps, 'drift');
  await reaches(deps, ref, isHealthy, 'healthy');
  const logged = () => deps.lines.filter((line) => line.includes('drift repaired') && line.includes(ref));
  await touch(deps, ref, { suspend: true });
  await reaches(deps, ref, ({ status }) => status?.phase === 'suspended', 'suspended');
  deps.capabilities.restored = ['the access to its database, which was changed'];
  await touch(deps, ref, { suspend: false });
  await reaches(deps, ref, isHealthy, 'healthy again');
  assert.equal([deps.capabilities.restored, logged()], [[], []]);
  deps.capabilities.restored = ['the access to its database, which was changed'];
  await deps.kubernetes.client.patch(projectPath(ref), { metadata: { annotations: { look: 'again' } } });
  await until(async () => logged().length > 0, 'the log line');
  assert.match(logged()[0] ?? '', /"repairs":\["put back: the access to its database, which was changed"\]/);
});

test.run();
