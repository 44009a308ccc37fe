/**
 * Tests the Build controller with a real Kubernetes API. The engine is a substitute in memory, so that a test decides
 * the state of each build.
 */
import {
  ANNOTATION_BUILD_TIME,
  ANNOTATION_CANCEL,
  ANNOTATION_CLEAR_BUILD_CACHE,
  ANNOTATION_REMOVE_PREVIEW,
  API_VERSION,
  BUILD_BUDGET,
  type Build,
  type BuildPhase,
  DETECTED_MAX_LENGTHS,
  isBuildFinished,
  isPushCheck,
  type Project,
} from '@slipway/crds';
import { ACCOUNT_BUILD_LIMITS, PREVIEW_LIMITS, SITE_BYTES, withTargets } from '@slipway/installation';
import { Informer } from '@slipway/kubernetes';
import { previewName } from '@slipway/sites';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type {
  BuildEnd,
  BuildName,
  BuildOrder,
  BuildState,
  Builds,
  KeptBuilds,
  Rollback,
} from '../../capabilities/index.js';
import { EventRecorder } from '../../runtime/events.js';
import { Metrics } from '../../runtime/metrics.js';
import { deleteAndWait, silentLog, startTestKubernetes, type TestKubernetes } from '../../testing.js';
import { buildCache, buildController } from './controller.js';
import { digestOf } from './order.js';

const keyOf = ({ ref, name }: BuildName) => `${ref}/${name}`;

/** Bytes of the parts of a site. */
interface Disk {
  live: number;
  former: number;
  cache: number;
}

class Remembering implements Builds {
  atOnce = 2;
  lacking: string | undefined;
  checksPushes = false;
  readonly orders = new Map<string, BuildOrder>();
  readonly states = new Map<string, BuildState>();
  readonly stopped: string[] = [];
  readonly cleared: string[] = [];
  kept = new Map<string, ReadonlySet<string>>();
  previews = new Map<string, ReadonlySet<string>>();
  live: string | undefined;
  readonly disk = new Map<string, Disk>();
  readonly outputs = new Set<string>();
  /** Builds whose processes do not end at once. */
  readonly slow = new Set<string>();
  #tell: (ref: string) => void = () => {};

  start(order: BuildOrder): void {
    this.orders.set(keyOf(order), order);
    this.states.set(keyOf(order), { steps: [{ name: 'Cloning', startedAt: new Date() }], hasCredentials: false });
  }
  started(ref: string): string[] {
    return [...this.states.keys()].filter((key) => key.startsWith(`${ref}/`)).map((key) => key.slice(ref.length + 1));
  }
  stateOf(build: BuildName): BuildState | undefined {
    return this.states.get(keyOf(build));
  }
  async stop(build: BuildName): Promise<void> {
    this.stopped.push(keyOf(build));
    const state = this.states.get(keyOf(build));
    if (this.slow.has(keyOf(build))) return;
    if (state && !state.end) this.states.set(keyOf(build), { ...state, end: { kind: 'stopped', at: new Date() } });
  }
  forget(build: BuildName): void {
    this.states.delete(keyOf(build));
  }
  async goLive({ name }: BuildName): Promise<Rollback> {
    if (!this.outputs.has(name)) return { kind: 'absent' };
    this.live = name;
    return { kind: 'live' };
  }
  async liveBuild(): Promise<string | undefined> {
    return this.live;
  }
  async keepOnly(ref: string, { builds, previews, deployments }: KeptBuilds): Promise<void> {
    this.kept.set(ref, builds);
    this.previews.set(ref, previews);
    if (deployments === 0) this.disk.set(ref, { ...this.#diskOf(ref), former: 0 });
  }
  async diskBytes(ref: string): Promise<number> {
    const { live, former, cache } = this.#diskOf(ref);
    return live + former + cache;
  }
  #diskOf = (ref: string): Disk => this.disk.get(ref) ?? { live: 0, former: 0, cache: 0 };
  async clearCache(ref: string): Promise<boolean> {
    if (this.started(ref).length > 0) return false;
    this.cleared.push(ref);
    this.disk.set(ref, { ...this.#diskOf(ref), cache: 0 });
    return true;
  }
  async remove(): Promise<void> {}
  onChange(listener: (ref: string) => void): void {
    this.#tell = listener;
  }

  /** Ends the processes of a build in `slow`. */
  endSlow(ref: string, name: string): void {
    this.slow.delete(`${ref}/${name}`);
    this.#tell(ref);
  }
  /** Changes the state of a build, and reports it. */
  tell(ref: string, name: string, change: Partial<BuildState>): void {
    const state = this.states.get(`${ref}/${name}`);
    this.states.set(`${ref}/${name}`, { steps: [], hasCredentials: false, ...state, ...change });
    this.#tell(ref);
  }
  end(
    ref: string,
    name: string,
    end: Omit<Extract<BuildEnd, { kind: 'failed' }>, 'at'> | { kind: 'deployed' | 'unneeded'; bytes?: number },
  ): void {
    this.tell(ref, name, { end: { ...end, at: new Date() } as BuildEnd });
  }
}

interface World {
  kubernetes: TestKubernetes;
  engine: Remembering;
  project(spec?: Partial<Project['spec']>): Promise<string>;
  build(ref: string, name: string, spec?: object): Promise<Build>;
  reaches(ref: string, name: string, phase: BuildPhase): Promise<Build>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

const test = suite<World>('build controller');
const PROJECTS = `/apis/${API_VERSION}/projects`;
const pathOf = (ref: string) => `/apis/${API_VERSION}/namespaces/p-${ref}/builds`;

test.before(async (world) => {
  world.kubernetes = await startTestKubernetes();
  const { client } = world.kubernetes;
  const refs: string[] = [];
  const begin = async () => {
    const metrics = new Metrics();
    const shared = { client, metrics, log: silentLog };
    const projects = new Informer<Project>({ ...shared, resource: 'projects', path: PROJECTS });
    const builds = buildCache(client, metrics, silentLog);
    const events = new EventRecorder({ client, component: 'test', log: silentLog });
    await Promise.all([projects.start(), builds.start()]);
    const parts = {
      client,
      engine: world.engine,
      builds,
      projects,
      events,
      log: silentLog,
      pushCheckMs: 200,
      now: () => new Date(),
    };
    const controller = buildController(parts, metrics);
    controller.start();
    return async () => {
      await Promise.all([controller.close(), projects.close(), builds.close()]);
      await events.close();
    };
  };
  world.engine = new Remembering();
  let end = await begin();
  world.restart = async () => {
    await end();
    world.engine.states.clear();
    end = await begin();
  };
  world.project = async (spec = {}) => {
    const ref = `b-${process.pid.toString(36)}-${refs.length}`;
    refs.push(ref);
    const source = { repoUrl: 'https://git.example.com/site.git' };
    await client.create(PROJECTS, {
      apiVersion: API_VERSION,
      kind: 'Project',
      metadata: { name: ref },
      spec: { owner: 'builds@example.com', type: 'frontend', source, ...spec },
    });
    await client.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: `p-${ref}` } });
    return ref;
  };
  world.build = (ref, name, spec = {}) =>
    client.create(pathOf(ref), {
      apiVersion: API_VERSION,
      kind: 'Build',
      metadata: { name },
      spec: { project: ref, ...spec },
    });
  world.reaches = (ref, name, phase) =>
    until(async () => {
      const object = await client.get<Build>(`${pathOf(ref)}/${name}`);
      return object.status?.phase === phase ? object : undefined;
    }, `${name} is ${phase}`);
  world.stop = async () => {
    await end();
    for (const ref of refs) {
      await client.delete(`/api/v1/namespaces/p-${ref}`).catch(() => undefined);
      await deleteAndWait(client, `${PROJECTS}/${ref}`).catch(() => undefined);
    }
  };
});

test.after(async ({ kubernetes, stop }) => {
  await stop();
  await kubernetes.close();
});

const readyOf = ({ status }: Build) => status?.conditions?.find(({ type }) => type === 'Ready');
const DEPLOYED = { kind: 'deployed' } as const;

test('a build runs step by step, and its status shows each step', async ({ engine, project, build, reaches }) => {
  const ref = await project({ build: { buildCommand: 'make' }, plan: 'pro' });
  await build(ref, 'one', { revision: 'v1' });
  const { status } = await reaches(ref, 'one', 'Cloning');
  const order = engine.orders.get(`${ref}/one`) as BuildOrder;
  assert.equal(
    [order.repoUrl, order.revision, order.settings.buildCommand],
    ['https://git.example.com/site.git', 'v1', 'make'],
  );
  assert.equal([order.settings.rootDir, order.submodules], [undefined, false]);
  assert.is(order.limits.milliseconds, 30 * 60_000);
  assert.is(status?.ticketDigest, digestOf(order.ticket));
  const [cloning] = engine.states.get(`${ref}/one`)?.steps ?? [];
  assert.ok(cloning);
  const done = { ...cloning, finishedAt: new Date(), exitCode: 0 };
  engine.tell(ref, 'one', {
    hasCredentials: true,
    commit: 'abc',
    steps: [done, { name: 'Installing', startedAt: new Date() }],
  });
  const installing = await reaches(ref, 'one', 'Installing');
  assert.is(installing.status?.ticketDigest, undefined, 'a used digest is not restored');
  assert.equal([installing.status?.commit, installing.status?.steps?.[0]?.exitCode], ['abc', 0]);
  engine.end(ref, 'one', DEPLOYED);
  const deployed = await reaches(ref, 'one', 'Deployed');
  assert.equal([readyOf(deployed)?.status, deployed.status?.steps?.length], ['True', 2]);
  assert.ok(deployed.status?.finishedAt);
  await until(() => engine.stateOf({ ref, name: 'one' }) === undefined, 'it is forgotten');
});

test('a build gets the root folder of its project, and clones submodules on request', async (world) => {
  const { engine, project, build, reaches } = world;
  const source = { repoUrl: 'https://git.example.com/site.git', submodules: true };
  const ref = await project({ source, build: { rootDir: 'apps/web' } });
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  engine.end(ref, 'one', DEPLOYED);
  await reaches(ref, 'one', 'Deployed');
  const order = engine.orders.get(`${ref}/one`) as BuildOrder;
  assert.equal([order.settings.rootDir, order.submodules], ['apps/web', true]);
});

test('a build gets the branch that it deploys', async (world) => {
  const { engine, project, build, reaches } = world;
  const ref = await project({ source: { ...WITH_PREVIEWS.source, productionBranch: 'live' } });
  for (const [name, spec, branch] of [
    ['of-production', {}, 'live'],
    ['of-a-branch', { revision: 'refs/heads/next' }, 'next'],
    ['of-a-commit', { revision: 'abc1234' }, 'live'],
    ['of-a-preview', { preview: 'feature/cart' }, 'feature/cart'],
  ] as const) {
    await build(ref, name, spec);
    await reaches(ref, name, 'Cloning');
    engine.end(ref, name, DEPLOYED);
    await reaches(ref, name, 'Deployed');
    assert.is(engine.orders.get(`${ref}/${name}`)?.branch, branch, name);
  }
});

test('a build gets the variables with the target build or all', async (world) => {
  const { engine, kubernetes, project, build, reaches } = world;
  const ref = await project({ env: { secretRef: { name: 'variables' } } });
  const targets = withTargets(
    { A: '1', B: '2', C: '3' },
    new Map([['B', 'build'] as const, ['C', 'runtime'] as const]),
  );
  await kubernetes.client.create<object>(`/api/v1/namespaces/p-${ref}/secrets`, {
    metadata: { name: 'variables' },
    stringData: targets,
  });
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  engine.end(ref, 'one', DEPLOYED);
  await reaches(ref, 'one', 'Deployed');
  assert.equal(engine.orders.get(`${ref}/one`)?.env, { A: '1', B: '2' });
});

test('a failed build reports its step, the reason and the exit code', async ({ engine, project, build, reaches }) => {
  const ref = await project();
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  const step = { name: 'Cloning' as const, startedAt: new Date(), finishedAt: new Date(), exitCode: 128 };
  engine.tell(ref, 'one', { steps: [step] });
  engine.end(ref, 'one', { kind: 'failed', reason: 'CloningFailed', message: 'git was denied', retry: false });
  const failed = await reaches(ref, 'one', 'Failed');
  assert.equal([readyOf(failed)?.reason, failed.status?.message], ['CloningFailed', 'git was denied']);
  assert.is(failed.status?.steps?.[0]?.exitCode, 128);
});

test('a build’s status shows the start of values that are longer than the schema allows', async (world) => {
  const { engine, project, build, reaches } = world;
  const ref = await project();
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  const long = `${'x'.repeat(62)}😀${'y'.repeat(2000)}`;
  const names = Object.keys(DETECTED_MAX_LENGTHS) as (keyof typeof DETECTED_MAX_LENGTHS)[];
  engine.tell(ref, 'one', {
    steps: [{ name: 'Building', startedAt: new Date() }],
    commit: 'c'.repeat(100),
    detected: Object.fromEntries(names.map((name) => [name, long])),
  });
  const { status } = await reaches(ref, 'one', 'Building');
  for (const name of names) assert.is(status?.detected?.[name]?.length, DETECTED_MAX_LENGTHS[name], name);
  assert.is(status?.commit?.length, 64);
  engine.end(ref, 'one', DEPLOYED);
  await reaches(ref, 'one', 'Deployed');
});

test('a build ends even if the API server rejects its progress', async (world) => {
  const { engine, project, build, reaches } = world;
  const ref = await project();
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  engine.tell(ref, 'one', { steps: [{ name: 'Building', startedAt: new Date(), exitCode: 1.5 }] });
  engine.end(ref, 'one', { kind: 'failed', reason: 'BuildingFailed', message: 'it failed', retry: false });
  assert.is((await reaches(ref, 'one', 'Failed')).status?.message, 'it failed');
  await until(() => engine.stateOf({ ref, name: 'one' }) === undefined, 'it is forgotten');
});

test('one build of a project runs at a time, and the newest waiting one supersedes the others', async (world) => {
  const { engine, project, build, reaches } = world;
  const ref = await project();
  await build(ref, 'build-1');
  await reaches(ref, 'build-1', 'Cloning');
  for (const name of ['build-2', 'build-9', 'build-10']) await build(ref, name);
  const superseded = await reaches(ref, 'build-9', 'Cancelled');
  assert.is(superseded.status?.message, 'superseded by build-10');
  assert.is(superseded.status?.conditions?.[0]?.reason, 'Superseded');
  await reaches(ref, 'build-2', 'Cancelled');
  await reaches(ref, 'build-10', 'Queued');
  engine.end(ref, 'build-1', DEPLOYED);
  await reaches(ref, 'build-10', 'Cloning');
  engine.end(ref, 'build-10', DEPLOYED);
  await reaches(ref, 'build-10', 'Deployed');
});

test('builds run up to the limit of the installation, and accounts take turns', async (world) => {
  const { engine, project, build, reaches } = world;
  const [first, second, third] = [await project(), await project(), await project()];
  const other = await project({ owner: 'other@example.com' });
  for (const ref of [first, second]) {
    await build(ref, 'one');
    await reaches(ref, 'one', 'Cloning');
  }
  await build(third, 'one');
  const waiting = await reaches(third, 'one', 'Queued');
  assert.is(waiting.status?.message, 'waits for builds of other projects');
  await build(other, 'one');
  await reaches(other, 'one', 'Queued');
  engine.end(first, 'one', DEPLOYED);
  await reaches(other, 'one', 'Cloning');
  await reaches(third, 'one', 'Queued');
  engine.end(second, 'one', DEPLOYED);
  await reaches(third, 'one', 'Cloning');
  for (const ref of [third, other]) engine.end(ref, 'one', DEPLOYED);
  for (const ref of [third, other]) await reaches(ref, 'one', 'Deployed');
});

test('a build is cancelled by its annotation, while it waits and while it runs', async (world) => {
  const { engine, kubernetes, project, build, reaches } = world;
  const ref = await project();
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  await build(ref, 'two');
  await reaches(ref, 'two', 'Queued');
  const metadata = { annotations: { [ANNOTATION_CANCEL]: 'yes' } };
  await kubernetes.client.patch(`${pathOf(ref)}/two`, { metadata });
  await reaches(ref, 'two', 'Cancelled');
  await kubernetes.client.patch(`${pathOf(ref)}/one`, { metadata });
  await reaches(ref, 'one', 'Cancelled');
  assert.ok(engine.stopped.includes(`${ref}/one`));
});

test('a build that is slow to stop keeps its place until it has ended, and delays no other project', async (world) => {
  const { engine, kubernetes, project, build, reaches } = world;
  const [cancelled, deleted, other] = [await project(), await project(), await project({ owner: 'else@example.com' })];
  for (const ref of [cancelled, deleted]) {
    await build(ref, 'one');
    await reaches(ref, 'one', 'Cloning');
    engine.slow.add(`${ref}/one`);
  }
  const metadata = { annotations: { [ANNOTATION_CANCEL]: 'yes' } };
  await kubernetes.client.patch(`${pathOf(cancelled)}/one`, { metadata });
  await kubernetes.client.delete(`${pathOf(deleted)}/one`);
  for (const ref of [cancelled, deleted]) await until(() => engine.stopped.includes(`${ref}/one`), 'the stop');
  await build(other, 'one');
  await reaches(other, 'one', 'Queued');
  assert.is((await kubernetes.client.get<Build>(`${pathOf(cancelled)}/one`)).status?.phase, 'Cloning');
  engine.endSlow(deleted, 'one');
  await reaches(other, 'one', 'Cloning');
  engine.endSlow(cancelled, 'one');
  await reaches(cancelled, 'one', 'Cancelled');
  engine.end(other, 'one', DEPLOYED);
  await reaches(other, 'one', 'Deployed');
});

test('a rollback waits for the end of the build that it supersedes', async (world) => {
  const { engine, project, build, reaches } = world;
  const ref = await project();
  engine.outputs.add('build-1');
  await build(ref, 'build-2');
  await reaches(ref, 'build-2', 'Cloning');
  engine.slow.add(`${ref}/build-2`);
  await build(ref, 'build-3', { deployment: 'build-1' });
  await reaches(ref, 'build-3', 'Queued');
  assert.is(engine.live, undefined);
  engine.endSlow(ref, 'build-2');
  assert.is((await reaches(ref, 'build-2', 'Cancelled')).status?.message, 'superseded by build-3');
  await reaches(ref, 'build-3', 'Deployed');
  engine.live = undefined;
});

test('a build that went live before it was stopped counts as deployed', async (world) => {
  const { engine, kubernetes, project, build, reaches } = world;
  const ref = await project();
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  engine.live = 'one';
  await kubernetes.client.patch(`${pathOf(ref)}/one`, { metadata: { annotations: { [ANNOTATION_CANCEL]: 'yes' } } });
  await reaches(ref, 'one', 'Deployed');
  engine.live = undefined;
});

test('a build ends when it or its project is deleted', async ({ engine, kubernetes, project, build, reaches }) => {
  const ref = await project();
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  await kubernetes.client.delete(`${pathOf(ref)}/one`);
  await until(() => engine.stopped.includes(`${ref}/one`), 'it is stopped');
  await build(ref, 'two');
  await reaches(ref, 'two', 'Cloning');
  await kubernetes.client.delete(`${PROJECTS}/${ref}`);
  await until(() => engine.stopped.includes(`${ref}/two`), 'the stop with the project');
});

test('a suspension ends the running build, which starts again when the project is resumed', async (world) => {
  const { kubernetes, project, build, reaches } = world;
  const ref = await project();
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  await kubernetes.client.patch(`${PROJECTS}/${ref}`, { spec: { suspend: true } });
  const waiting = await reaches(ref, 'one', 'Queued');
  assert.is(waiting.status?.message, 'waits: the project is suspended');
  await kubernetes.client.patch(`${PROJECTS}/${ref}`, { spec: { suspend: false } });
  await reaches(ref, 'one', 'Cloning');
  await kubernetes.client.delete(`${pathOf(ref)}/one`);
});

test('a build whose machine failed is retried once, and then fails with the reason', async (world) => {
  const { engine, project, build, reaches, restart } = world;
  const ref = await project();
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  await restart();
  const again = await until(async () => {
    const object = await reaches(ref, 'one', 'Cloning');
    return object.status?.attempts === 2 ? object : undefined;
  }, 'the second attempt');
  assert.is(again.status?.attempts, BUILD_BUDGET.attempts);
  await until(() => engine.stateOf({ ref, name: 'one' }), 'it runs');
  await restart();
  const failed = await reaches(ref, 'one', 'Failed');
  assert.is(readyOf(failed)?.reason, 'Interrupted');
  assert.match(failed.status?.message ?? '', /the machine that ran the build stopped, at attempt 2 of 2/);
});

test('a build that was live before its machine failed counts as deployed', async ({
  engine,
  project,
  build,
  reaches,
  restart,
}) => {
  const ref = await project();
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  engine.live = 'one';
  await restart();
  await reaches(ref, 'one', 'Deployed');
  engine.live = undefined;
});

test('a rollback publishes the output of an earlier build, and supersedes the running one', async (world) => {
  const { engine, project, build, reaches } = world;
  const ref = await project();
  engine.outputs.add('build-1');
  await build(ref, 'build-2');
  await reaches(ref, 'build-2', 'Cloning');
  await build(ref, 'build-3', { deployment: 'build-1' });
  const done = await reaches(ref, 'build-3', 'Deployed');
  assert.is(done.status?.message, 'build-1 is live again');
  assert.is(engine.live, 'build-1');
  await reaches(ref, 'build-2', 'Cancelled');
  await build(ref, 'build-4', { deployment: 'build-2' });
  assert.is(readyOf(await reaches(ref, 'build-4', 'Failed'))?.reason, 'NoSuchDeployment');
  engine.live = undefined;
});

test('the schema rejects a rollback to an invalid build name', async ({ project, build }) => {
  const ref = await project();
  for (const deployment of ['../../other', '', 'A', 'a..b', 'a/b', '-a', 'x'.repeat(64)]) {
    const answer = await build(ref, 'back', { deployment }).then(
      () => 'taken',
      ({ status, message }) => `${status} ${message}`,
    );
    assert.match(answer, /^422 .*spec\.deployment/, deployment);
  }
});

test('a build that was named with kubectl gets a number too', async ({ engine, project, build, reaches }) => {
  const ref = await project();
  await build(ref, 'build-7', { project: 'another' });
  await reaches(ref, 'build-7', 'Failed');
  await build(ref, 'by-hand');
  assert.is((await reaches(ref, 'by-hand', 'Cloning')).status?.number, 8);
  engine.end(ref, 'by-hand', DEPLOYED);
  assert.is((await reaches(ref, 'by-hand', 'Deployed')).status?.number, 8);
});

const ASKED = { metadata: { annotations: { [ANNOTATION_CLEAR_BUILD_CACHE]: 'yes' } } };
const isAsked = async ({ kubernetes }: World, ref: string) => {
  const { metadata } = await kubernetes.client.get<Project>(`${PROJECTS}/${ref}`);
  return metadata.annotations?.[ANNOTATION_CLEAR_BUILD_CACHE] !== undefined;
};

test('the cache of a project without builds is cleared at once', async (world) => {
  const { engine, kubernetes, project } = world;
  const ref = await project();
  await kubernetes.client.patch(`${PROJECTS}/${ref}`, ASKED);
  await until(async () => !(await isAsked(world, ref)), 'the annotation is removed');
  assert.ok(engine.cleared.includes(ref));
});

test('the cache is cleared after the running build and before the waiting build', async (world) => {
  const { engine, kubernetes, project, build, reaches } = world;
  const ref = await project();
  await build(ref, 'build-1');
  await reaches(ref, 'build-1', 'Cloning');
  await kubernetes.client.patch(`${PROJECTS}/${ref}`, ASKED);
  await build(ref, 'build-2');
  await reaches(ref, 'build-2', 'Queued');
  assert.not.ok(engine.cleared.includes(ref));
  assert.ok(await isAsked(world, ref), 'the annotation stays until the cache is cleared');
  const [before, start] = [engine.cleared.length, engine.start];
  let clearedFirst = false;
  engine.start = (order) => {
    clearedFirst = engine.cleared.length > before;
    start.call(engine, order);
  };
  engine.end(ref, 'build-1', DEPLOYED);
  await reaches(ref, 'build-2', 'Cloning');
  engine.start = start;
  engine.end(ref, 'build-2', DEPLOYED);
  await reaches(ref, 'build-2', 'Deployed');
  assert.ok(clearedFirst);
  assert.not.ok(await isAsked(world, ref));
});

const GIB = 2 ** 30;

test('a build of a site beyond its share of the disk clears its cache, and keeps former deployments', async (world) => {
  const { engine, project, build, reaches } = world;
  const ref = await project({ owner: 'cached@example.com' });
  engine.disk.set(ref, { live: GIB, former: 5 * GIB, cache: 3 * GIB });
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  assert.equal(engine.disk.get(ref), { live: GIB, former: 5 * GIB, cache: 0 });
  engine.end(ref, 'one', DEPLOYED);
  await reaches(ref, 'one', 'Deployed');
});

test('a build of a site whose deployments exceed its share removes the former ones', async (world) => {
  const { engine, project, build, reaches } = world;
  const ref = await project({ owner: 'former@example.com' });
  engine.disk.set(ref, { live: GIB, former: 8 * GIB, cache: 0 });
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  assert.is(engine.disk.get(ref)?.former, 0);
  engine.end(ref, 'one', DEPLOYED);
  await reaches(ref, 'one', 'Deployed');
});

test('a build fails if the live site exceeds its share of the disk', async ({ engine, project, build, reaches }) => {
  const ref = await project({ owner: 'live@example.com' });
  engine.disk.set(ref, { live: SITE_BYTES.free, former: 1, cache: 1 });
  await build(ref, 'one');
  const failed = await reaches(ref, 'one', 'Failed');
  assert.is(readyOf(failed)?.reason, 'DiskShareUsed');
  assert.match(failed.status?.message ?? '', /the site uses 8192 MiB of the 8192 MiB of disk .* previews/);
});

test('an account whose sites use its share of the disk gets room from all caches, or no build', async (world) => {
  const { engine, project, build, reaches } = world;
  const owner = 'hoarder@example.com';
  const refs = [];
  for (let site = 0; site < 6; site += 1) refs.push(await project({ owner }));
  const [ref, other] = refs as [string, string];
  for (const each of refs) engine.disk.set(each, { live: 5 * GIB, former: 0, cache: GIB });
  await build(ref, 'build-1');
  await reaches(ref, 'build-1', 'Cloning');
  assert.ok(engine.cleared.includes(other));
  engine.end(ref, 'build-1', DEPLOYED);
  await reaches(ref, 'build-1', 'Deployed');
  engine.disk.set(other, { live: 8 * GIB - 1, former: 0, cache: 0 });
  await build(ref, 'build-2');
  const failed = await reaches(ref, 'build-2', 'Failed');
  assert.match(failed.status?.message ?? '', /all sites of its owner use 33792 MiB of the 32768 MiB/);
  const stranger = await project({ owner: 'stranger@example.com' });
  await build(stranger, 'one');
  await reaches(stranger, 'one', 'Cloning');
  engine.end(stranger, 'one', DEPLOYED);
  await reaches(stranger, 'one', 'Deployed');
});

const WITH_PREVIEWS = { source: { repoUrl: 'https://git.example.com/site.git', previews: true } };

/** Resolves once the engine keeps exactly the previews of these branches. */
const keepsPreviews = ({ engine }: World, ref: string, branches: string[]) =>
  until(
    () => {
      const kept = engine.previews.get(ref);
      return kept?.size === branches.length && branches.every((branch) => kept.has(previewName(ref, branch)));
    },
    `the previews of ${branches.join(', ') || 'no branch'}`,
  );

async function deployPreview({ engine, build, reaches }: World, ref: string, branch: string, bytes = 1) {
  const { metadata } = await build(ref, `preview-${++deploys}`, { preview: branch });
  await reaches(ref, metadata.name, 'Cloning');
  engine.end(ref, metadata.name, { kind: 'deployed', bytes });
  await reaches(ref, metadata.name, 'Deployed');
  return metadata.name;
}
let deploys = 0;

test('previews are built beside the site, one per project at a time, the newest of each branch', async (world) => {
  const { engine, project, build, reaches } = world;
  const ref = await project(WITH_PREVIEWS);
  await build(ref, 'build-1');
  await reaches(ref, 'build-1', 'Cloning');
  await build(ref, 'build-2', { preview: 'feature/x' });
  await reaches(ref, 'build-2', 'Cloning');
  const { site, revision } = engine.orders.get(`${ref}/build-2`) as BuildOrder;
  assert.equal([site, revision], [previewName(ref, 'feature/x'), 'refs/heads/feature/x']);
  assert.is(engine.orders.get(`${ref}/build-1`)?.site, ref);
  for (const name of ['build-3', 'build-4']) await build(ref, name, { preview: 'next' });
  assert.is((await reaches(ref, 'build-3', 'Cancelled')).status?.message, 'superseded by build-4');
  assert.is((await reaches(ref, 'build-4', 'Queued')).status?.message, 'waits for another preview that is built');
  engine.end(ref, 'build-2', { kind: 'deployed', bytes: 7 });
  const { status } = await reaches(ref, 'build-2', 'Deployed');
  assert.equal([status?.message, status?.bytes], ['the preview is live', 7]);
  await reaches(ref, 'build-4', 'Cloning');
  for (const name of ['build-1', 'build-4']) {
    engine.end(ref, name, DEPLOYED);
    await reaches(ref, name, 'Deployed');
  }
  await keepsPreviews(world, ref, ['feature/x', 'next']);
});

test('a site’s build takes the place of a running build of a preview, which starts again', async (world) => {
  const { engine, project, build, reaches } = world;
  const [ref, other] = [await project(WITH_PREVIEWS), await project({ owner: 'full@example.com' })];
  await build(other, 'one');
  await reaches(other, 'one', 'Cloning');
  await build(ref, 'build-1', { preview: 'next' });
  await reaches(ref, 'build-1', 'Cloning');
  await build(ref, 'build-2');
  await reaches(ref, 'build-2', 'Cloning');
  const waiting = await reaches(ref, 'build-1', 'Queued');
  assert.ok(engine.stopped.includes(`${ref}/build-1`));
  assert.match(waiting.status?.message ?? '', /begins again: the site is built first|waits for other builds/);
  engine.end(ref, 'build-2', DEPLOYED);
  assert.is((await reaches(ref, 'build-1', 'Cloning')).status?.attempts, 1);
  for (const [of, name] of [
    [other, 'one'],
    [ref, 'build-1'],
  ] as const) {
    engine.end(of, name, DEPLOYED);
    await reaches(of, name, 'Deployed');
  }
});

test('a preview that a site’s build stops never fails, also when it stops late and again', async (world) => {
  const { engine, project, build, reaches } = world;
  const [ref, other] = [await project(WITH_PREVIEWS), await project({ owner: 'full@example.com' })];
  await build(ref, 'of-preview', { preview: 'next' });
  for (const times of [1, 2, 3]) {
    const [fills, ofSite] = [`fills-${times}`, `site-${times}`];
    await build(other, fills);
    await reaches(other, fills, 'Cloning');
    assert.is((await reaches(ref, 'of-preview', 'Cloning')).status?.attempts, 1);
    engine.slow.add(`${ref}/of-preview`);
    engine.stopped.splice(0);
    await build(ref, ofSite);
    await until(() => engine.stopped.includes(`${ref}/of-preview`), 'it is stopped');
    // The site gets another place before the preview's processes have ended.
    engine.end(other, fills, DEPLOYED);
    await reaches(ref, ofSite, 'Cloning');
    engine.slow.delete(`${ref}/of-preview`);
    engine.tell(ref, 'of-preview', { end: { kind: 'stopped', at: new Date() } });
    engine.end(ref, ofSite, DEPLOYED);
    await reaches(ref, ofSite, 'Deployed');
    const state = () => engine.stateOf({ ref, name: 'of-preview' });
    await until(() => state() !== undefined && state()?.end === undefined, 'it starts again');
  }
  engine.end(ref, 'of-preview', DEPLOYED);
  await reaches(ref, 'of-preview', 'Deployed');
});

test('a preview is built only when previews are on, and not of the production branch', async (world) => {
  const { project, build, reaches } = world;
  const off = await project();
  await build(off, 'one', { preview: 'next' });
  assert.is(readyOf(await reaches(off, 'one', 'Failed'))?.reason, 'PreviewsOff');
  const ref = await project(WITH_PREVIEWS);
  await build(ref, 'one', { preview: 'main' });
  assert.is(readyOf(await reaches(ref, 'one', 'Failed'))?.reason, 'ProductionBranch');
  for (const spec of [{ preview: '--upload-pack=x' }, { preview: '' }, { preview: 'x', deployment: 'one' }]) {
    const answer = await build(ref, 'two', spec).then(
      () => 'taken',
      ({ status, message }) => `${status} ${message}`,
    );
    assert.match(answer, /^422 .*spec/, JSON.stringify(spec));
  }
});

test('a preview is removed by an annotation, with its Builds, and when previews are switched off', async (world) => {
  const { engine, kubernetes, project, build, reaches } = world;
  const ref = await project(WITH_PREVIEWS);
  const first = await deployPreview(world, ref, 'a');
  const second = await deployPreview(world, ref, 'a');
  const [b, c] = [await deployPreview(world, ref, 'b'), await deployPreview(world, ref, 'c')];
  await keepsPreviews(world, ref, ['a', 'b', 'c']);
  const { finishedAt } = (await reaches(ref, second, 'Deployed')).status ?? {};
  const metadata = { annotations: { [ANNOTATION_REMOVE_PREVIEW]: '' } };
  const runs = `preview-${++deploys}`;
  await build(ref, runs, { preview: 'a' });
  await reaches(ref, runs, 'Cloning');
  await kubernetes.client.patch(`${pathOf(ref)}/${runs}`, { metadata });
  for (const name of [first, second, runs]) await reaches(ref, name, 'Removed');
  assert.ok(engine.stopped.includes(`${ref}/${runs}`));
  assert.is((await reaches(ref, second, 'Removed')).status?.finishedAt, finishedAt);
  await keepsPreviews(world, ref, ['b', 'c']);
  await kubernetes.client.delete(`${pathOf(ref)}/${b}`);
  await keepsPreviews(world, ref, ['c']);
  await deployPreview(world, ref, 'a');
  await keepsPreviews(world, ref, ['a', 'c']);
  await kubernetes.client.patch(`${PROJECTS}/${ref}`, { spec: { source: { previews: false } } });
  assert.is(readyOf(await reaches(ref, c, 'Removed'))?.reason, 'PreviewsOff');
  await keepsPreviews(world, ref, []);
});

test('the oldest previews beyond the plan’s limits of number and bytes are removed', async (world) => {
  const { project, reaches } = world;
  const ref = await project(WITH_PREVIEWS);
  const { previews: most, totalBytes } = PREVIEW_LIMITS.free;
  const branches = Array.from({ length: most + 1 }, (_, index) => `b${index}`);
  const names: string[] = [];
  for (const branch of branches) names.push(await deployPreview(world, ref, branch));
  const removed = await reaches(ref, names[0] as string, 'Removed');
  assert.match(
    removed.status?.message ?? '',
    /^newer previews took its place: a project may have 5, of 1 GiB together/,
  );
  await keepsPreviews(world, ref, branches.slice(1));
  await deployPreview(world, ref, 'large', totalBytes - 1);
  await keepsPreviews(world, ref, ['large', branches.at(-1) as string]);
});

test('builds of previews displace neither builds of the site nor builds of existing previews', async (world) => {
  const { kubernetes, project, build, reaches } = world;
  const ref = await project(WITH_PREVIEWS);
  await build(ref, 'of-site', { project: 'another' });
  const preview = await deployPreview(world, ref, 'kept');
  const all = BUILD_BUDGET.buildsOfPreviews + 2;
  for (let number = 1; number <= all; number += 1) await build(ref, `build-${number}`, { preview: 'main' });
  const names = await until(async () => {
    const { items } = await kubernetes.client.get<{ items: Build[] }>(pathOf(ref));
    const found = items.map(({ metadata }) => metadata.name);
    return found.length === BUILD_BUDGET.buildsOfPreviews + 1 ? found : undefined;
  }, 'fewer builds');
  assert.ok(names.includes('of-site') && names.includes(preview) && names.includes(`build-${all}`));
  assert.not(names.includes('build-1'));
  await reaches(ref, preview, 'Deployed');
});

const COMMIT = '4ad3b1c0f4f6d2c0a5f8e1d7b9c3a2e6f0d8b7a1';
const listed = async ({ kubernetes }: World, ref: string) =>
  (await kubernetes.client.get<{ items: Build[] }>(pathOf(ref))).items;
const runningCheck = (world: World, ref: string) =>
  until(
    async () => (await listed(world, ref)).find(({ spec, status }) => spec.unless && status?.phase === 'Cloning'),
    'a check runs',
  );

test('a repository with a working webhook is checked at intervals for missed pushes', async (world) => {
  const { engine, project, build, reaches } = world;
  engine.checksPushes = true;
  const [ref, other] = [await project(), await project()];
  for (const [of, trigger] of [
    [ref, 'webhook'],
    [other, 'api'],
  ] as const) {
    await build(of, 'build-1', { trigger });
    await reaches(of, 'build-1', 'Cloning');
    engine.tell(of, 'build-1', { commit: COMMIT });
    engine.end(of, 'build-1', DEPLOYED);
    await reaches(of, 'build-1', 'Deployed');
  }
  for (let checks = 0; checks < 2; checks += 1) {
    const check = await runningCheck(world, ref);
    const { name, uid } = check.metadata;
    assert.equal(check.spec, { project: ref, trigger: 'poll', unless: COMMIT });
    assert.is(engine.orders.get(`${ref}/${name}`)?.unless, COMMIT);
    assert.is(isPushCheck(check), true);
    engine.end(ref, name, { kind: 'unneeded' });
    await until(async () => (await listed(world, ref)).every(({ metadata }) => metadata.uid !== uid), 'the deletion');
  }
  const missed = (await runningCheck(world, ref)).metadata.name;
  const newer = COMMIT.replaceAll('4', '5');
  engine.tell(ref, missed, { commit: newer });
  engine.end(ref, missed, DEPLOYED);
  await reaches(ref, missed, 'Deployed');
  const next = await runningCheck(world, ref);
  assert.is(next.spec.unless, newer);
  engine.end(ref, next.metadata.name, { kind: 'failed', reason: 'CloningFailed', message: 'denied', retry: false });
  assert.is((await reaches(ref, next.metadata.name, 'Failed')).status?.message, 'denied');
  const again = await runningCheck(world, ref);
  assert.is(again.spec.unless, newer, 'it is tried again');
  assert.is((await listed(world, other)).length, 1, 'no webhook has delivered');
  engine.checksPushes = false;
  engine.end(ref, again.metadata.name, { kind: 'unneeded' });
});

test('a check for missed pushes supersedes no waiting deploy', async (world) => {
  const { engine, kubernetes, project, build, reaches } = world;
  const ref = await project({ suspend: true });
  await build(ref, 'build-1', { trigger: 'api' });
  await build(ref, 'build-2', { trigger: 'poll', unless: COMMIT });
  assert.is((await reaches(ref, 'build-2', 'Cancelled')).status?.message, 'superseded by build-1');
  await kubernetes.client.patch(`${PROJECTS}/${ref}`, { spec: { suspend: false } });
  await reaches(ref, 'build-1', 'Cloning');
  engine.end(ref, 'build-1', DEPLOYED);
  await reaches(ref, 'build-1', 'Deployed');
});

test('builds of one account run up to the limit of its plan, even if more places are free', async (world) => {
  const { engine, project, build, reaches } = world;
  const owner = 'many@example.com';
  const [first, second, last] = [await project({ owner }), await project({ owner }), await project({ owner })];
  const other = await project({ owner: 'one@example.com' });
  engine.atOnce = 10;
  for (const ref of [first, second]) {
    await build(ref, 'one');
    await reaches(ref, 'one', 'Cloning');
  }
  await build(last, 'one');
  assert.is((await reaches(last, 'one', 'Queued')).status?.message, 'waits for other builds of its owner');
  await build(other, 'one');
  await reaches(other, 'one', 'Cloning');
  engine.end(first, 'one', DEPLOYED);
  await reaches(last, 'one', 'Cloning');
  for (const ref of [second, last, other]) engine.end(ref, 'one', DEPLOYED);
  for (const ref of [first, second, last, other]) await reaches(ref, 'one', 'Deployed');
  engine.atOnce = 2;
});

test('100 builds created at the same time take no more places than the account has', async (world) => {
  const { engine, project, build } = world;
  const owner = 'burst@example.com';
  const refs: string[] = [];
  for (let made = 0; made < 20; made += 1) refs.push(await project({ owner }));
  engine.atOnce = 10;
  const [start, before] = [engine.start, engine.orders.size];
  let most = 0;
  const runs = () => refs.filter((ref) => engine.started(ref).length > 0);
  engine.start = (order) => {
    start.call(engine, order);
    most = Math.max(most, runs().length);
  };
  await Promise.all(Array.from({ length: 100 }, (_, at) => build(refs[at % 20] as string, `build-${at}`)));
  const endAll = async () => {
    for (const ref of runs()) for (const name of engine.started(ref)) engine.end(ref, name, DEPLOYED);
    const builds = (await Promise.all(refs.map((ref) => listed(world, ref)))).flat();
    return builds.every(isBuildFinished);
  };
  await until(endAll, 'all have ended');
  assert.is(most, ACCOUNT_BUILD_LIMITS.free.atOnce);
  assert.ok(engine.orders.size - before >= 20, 'each project is built');
  engine.start = start;
  engine.atOnce = 2;
});

test('builds wait when the account has used its build time of the day', async (world) => {
  const { engine, kubernetes, project, build, reaches } = world;
  const owner = 'busy@example.com';
  const [ref, second] = [await project({ owner }), await project({ owner })];
  await build(ref, 'one');
  await reaches(ref, 'one', 'Cloning');
  engine.end(ref, 'one', DEPLOYED);
  await reaches(ref, 'one', 'Deployed');
  const timeOf = async () =>
    (await kubernetes.client.get<Project>(`${PROJECTS}/${ref}`)).metadata.annotations?.[ANNOTATION_BUILD_TIME];
  await until(async () => /^\d{4}-\d\d-\d\d \d+$/.test((await timeOf()) ?? ''), 'the count of its time');
  const set = (day: Date, minutes: number) =>
    kubernetes.client.patch(`${PROJECTS}/${ref}`, {
      metadata: { annotations: { [ANNOTATION_BUILD_TIME]: `${day.toISOString().slice(0, 10)} ${minutes * 60}` } },
    });
  const minutes = ACCOUNT_BUILD_LIMITS.free.millisecondsADay / 60_000;
  await set(new Date(), minutes);
  await world.restart();
  await build(second, 'two');
  const waiting = await reaches(second, 'two', 'Queued');
  assert.is(readyOf(waiting)?.reason, 'BuildTimeUsed');
  assert.match(waiting.status?.message ?? '', /have used the 240 minutes of this day/);
  await set(new Date(Date.now() - 24 * 60 * 60_000), minutes);
  await world.restart();
  await reaches(second, 'two', 'Cloning');
  engine.end(second, 'two', DEPLOYED);
  await reaches(second, 'two', 'Deployed');
});

test('the time of a deleted project’s builds still counts for its owner', async (world) => {
  const { kubernetes, project, build, reaches } = world;
  const owner = 'deletes@example.com';
  const ref = await project({ owner });
  const minutes = ACCOUNT_BUILD_LIMITS.free.millisecondsADay / 60_000;
  const value = `${new Date().toISOString().slice(0, 10)} ${minutes * 60}`;
  await kubernetes.client.patch(`${PROJECTS}/${ref}`, {
    metadata: { annotations: { [ANNOTATION_BUILD_TIME]: value } },
  });
  await world.restart();
  const [waits, after] = [await project({ owner }), await project({ owner })];
  await build(waits, 'one');
  assert.is(readyOf(await reaches(waits, 'one', 'Queued'))?.reason, 'BuildTimeUsed');
  await deleteAndWait(kubernetes.client, `${PROJECTS}/${ref}`);
  await build(after, 'two');
  assert.is(readyOf(await reaches(after, 'two', 'Queued'))?.reason, 'BuildTimeUsed');
  for (const [left, name] of [
    [waits, 'one'],
    [after, 'two'],
  ] as const)
    await kubernetes.client.delete(`${pathOf(left)}/${name}`);
});

for (const [what, spec, ofBuild, reason] of [
  ['of another project', {}, { project: 'another' }, 'WrongProject'],
  ['of a project with a database', { type: 'shared' }, {}, 'WrongType'],
  ['of a project without a repository', { source: {} }, {}, 'NoRepository'],
] as const) {
  test(`a build ${what} fails with the change to make`, async ({ project, build, reaches }) => {
    const ref = await project(spec);
    await build(ref, 'one', ofBuild);
    assert.is(readyOf(await reaches(ref, 'one', 'Failed'))?.reason, reason);
  });
}

test('builds wait with the reason when the installation can run none', async ({ engine, project, build, reaches }) => {
  const ref = await project();
  engine.lacking = 'no walls';
  await build(ref, 'one');
  assert.is((await reaches(ref, 'one', 'Queued')).status?.message, 'waits: no walls');
  engine.lacking = undefined;
});

test('a project keeps a limited number of builds, the newest ones', async ({ engine, kubernetes, project, build }) => {
  const ref = await project();
  const all = BUILD_BUDGET.buildsOfProject + 2;
  for (let number = 1; number <= all; number += 1) await build(ref, `build-${number}`, { project: 'another' });
  const names = await until(async () => {
    const { items } = await kubernetes.client.get<{ items: Build[] }>(pathOf(ref));
    return items.length === BUILD_BUDGET.buildsOfProject ? items.map(({ metadata }) => metadata.name) : undefined;
  }, 'fewer builds');
  assert.not(names.includes('build-1'));
  assert.ok(names.includes(`build-${all}`));
  await until(
    () => !engine.kept.get(ref)?.has('build-1') && engine.kept.get(ref)?.has(`build-${all}`),
    'the engine knows',
  );
});

test.run();
