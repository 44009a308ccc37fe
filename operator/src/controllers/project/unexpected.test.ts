/**
 * The Project controller against a real Kubernetes API, where a step throws what nobody expected. The engine is one
 * that throws on request.
 */
import { API_VERSION, type Project } from '@slipway/crds';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Engine, EngineOutcome, ServicesOutcome } from '../../engines/engine.js';
import type { Controller } from '../../runtime/controller.js';
import { EventRecorder } from '../../runtime/events.js';
import { Metrics } from '../../runtime/metrics.js';
import { startTestKubernetes, type TestKubernetes, until } from '../../testing.js';
import { projectCaches, projectController } from './controller.js';
import { PROJECTS, projectPath } from './resources.js';

type Verb = 'ensureIsolation' | 'ensureDatabase' | 'ensureServices' | 'remove';

interface ReconcilerDeps {
  kubernetes: TestKubernetes;
  engine: ThrowingEngine;
  metrics: Metrics;
  /** The log lines, as JSON. */
  lines: string[];
  stop(): Promise<void>;
}

const SECRET = 'postgresql://owner:hunter2@db/p-x';
const READY = { state: 'ready', value: undefined } as const;

/** All is well, except for the verb that throws. */
class ThrowingEngine implements Engine {
  broken: Verb | undefined;

  databaseAddress = () => ({ host: 'db', port: 5432, publicAddress: 'db:5432' });
  recordedDatabaseId = async () => undefined;
  ensureIsolation = () => this.#answer('ensureIsolation', READY);
  ensureDatabase = () => this.#answer('ensureDatabase', READY);
  ensureServices = () => this.#answer<ServicesOutcome>('ensureServices', { outcome: running, parts: [] });
  verifiersAccept = async (): Promise<EngineOutcome> => READY;
  remove = () => this.#answer('remove', READY);
  close = async () => {};

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
  deps.engine = new ThrowingEngine();
  deps.lines = [];
  const log = pino({}, { write: (line: string) => deps.lines.push(line) });
  const { client } = deps.kubernetes;
  // Leader election makes this namespace, and none runs here.
  const metadata = { name: 'slipway-system' };
  await client.create<object>('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
  const caches = projectCaches(client, deps.metrics, log, () => false);
  await Promise.all(Object.values(caches).map((cache) => cache.start()));
  const events = new EventRecorder({ client, component: 'test', log });
  const projectUrl = (ref: string) => `http://localhost:4000/p/${ref}`;
  const parts = { client, engine: deps.engine, events, log, projectUrl, now: () => new Date(), ...caches };
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

/** A change that makes the controller look. */
const touch = ({ kubernetes }: ReconcilerDeps, ref: string, spec: object) =>
  kubernetes.client.patch<Project>(projectPath(ref), { spec });

for (const [verb, condition] of [
  ['ensureIsolation', 'IsolationReady'],
  ['ensureDatabase', 'DatabaseReady'],
  ['ensureServices', 'ServicesReady'],
] as const) {
  test(`a healthy Project says so in its status when ${verb} throws, and heals when it does not`, async (deps) => {
    const ref = await createProject(deps, condition.toLowerCase());
    const healthy = await reaches(deps, ref, isHealthy, 'healthy');
    deps.engine.broken = verb;
    const { metadata } = await touch(deps, ref, { plan: 'pro' });
    const failed = await reaches(deps, ref, isUnexpected, 'failed');
    assert.is(failed.status?.phase, 'error');
    assert.is(failed.status?.observedGeneration, metadata.generation);
    assert.is(conditionOf(failed, condition)?.status, 'False');
    assert.is(conditionOf(failed, condition)?.reason, 'UnexpectedError');
    assert.equal(failed.status?.services, healthy.status?.services, 'nobody looked at the services');
    if (verb !== 'ensureServices') {
      const services = conditionOf(failed, 'ServicesReady');
      assert.equal(services, conditionOf(healthy, 'ServicesReady'), 'a later step stays as it was last known');
    }
    assert.not(JSON.stringify(failed.status).includes('hunter2'));
    assert.match(failed.status?.message ?? '', /log of the operator/);
    deps.engine.broken = undefined;
    await reaches(deps, ref, isHealthy, 'healthy again');
  });
}

test('a deleted Project says so in its status when its removal throws, and goes when it does not', async (deps) => {
  const { client } = deps.kubernetes;
  const ref = await createProject(deps, 'removal');
  await reaches(deps, ref, isHealthy, 'healthy');
  deps.engine.broken = 'remove';
  await client.delete(projectPath(ref));
  const failed = await reaches(deps, ref, ({ status }) => /log of the operator/.test(status?.message ?? ''), 'failed');
  assert.is(failed.status?.phase, 'deleting');
  assert.not(JSON.stringify(failed.status).includes('hunter2'));
  deps.engine.broken = undefined;
  const isGone = async () => !(await client.get(projectPath(ref)).catch(() => undefined));
  await until(isGone, 'the Project to be deleted');
});

test('it is logged with its stack, and counted apart from retries', async ({ lines, metrics }) => {
  const line = lines.map((text) => JSON.parse(text)).find(({ msg }) => msg === 'reconcile failed unexpectedly');
  assert.match(line.stack, /TypeError/);
  assert.match(line.stack, /unexpected\.test/);
  assert.is(line.level, 50);
  const text = await metrics.registry.metrics();
  assert.match(text, /slipway_reconcile_unexpected_errors_total\{controller="project",step="services"\} [1-9]/);
  assert.match(text, /slipway_reconcile_total\{controller="project",result="unexpected"\} [1-9]/);
  assert.not.match(text, /slipway_queue_retries_total\{controller="project"\} [1-9]/);
});

test.run();
