/**
 * One reconcile of a project's builds. In: a ref. Out: when to reconcile again. It does this in order:
 * - record the state of running builds
 * - remove previews
 * - supersede the waiting builds of each branch by the newest
 * - start the builds whose turn it is
 */
import {
  ANNOTATION_CLEAR_BUILD_CACHE,
  API_VERSION,
  BUILD_BUDGET,
  type Build,
  buildsInOrder,
  isBuildFinished,
  isBuildRunning,
  isBuildWaiting,
  isOfSite,
  isSuspended,
  numberOfBuild,
  type Project,
  previewBuildsOf,
  TYPES,
  typeOf,
} from '@slipway/crds';
import { ACCOUNT_BUILD_LIMITS, LABEL_PROJECT, namespaceOf, refOfNamespace } from '@slipway/installation';
import { isConflict, isNotFound } from '@slipway/kubernetes';
import {
  type BuildEnd,
  type BuildName,
  type Builds,
  DEPLOYMENTS_KEPT,
  type Rollback,
} from '../../capabilities/index.js';
import type { Outcome } from '../../runtime/controller.js';
import { projectPath } from '../project/resources.js';
import { lackOfDisk } from './disk-share.js';
import { digestOf, newTicket, orderOf, siteOf } from './order.js';
import { removalsOf } from './previews.js';
import { pushCheckOf } from './push-checks.js';
import { type BuildReconcilerDeps, BY_ACTIVITY, BY_NAMESPACE, buildPath, isCancelled } from './resources.js';
import { type Finding, progressOf, statusOf } from './status.js';
import { accountOf, hasAllPlaces, hasUsedUp, type Line, mayBuild, nextInLine, type Turn } from './turn.js';

export interface BuildTurns {
  /** The time of each account's last start of a build. It is lost with the process, which affects only the order. */
  lastStarts: Map<string, number>;
  /**
   * The time of the last check of each repository for missed pushes, in milliseconds. Spread at random when the
   * operator starts.
   */
  lastChecks: Map<string, number>;
  /**
   * Builds whose object or project is deleted while their processes still end, by ref. They keep their places until
   * then.
   */
  ending: Map<string, Build[]>;
  /** Starts a reconcile of another project's builds. */
  look(ref: string): void;
  /** Starts a reconcile of all builds that wait for a place. */
  lookAtWaiting(): void;
}

/** Milliseconds between reads of the states of builds, in case the engine's event of a change was lost. */
const RESYNC_MS = 30_000;

export async function reconcileBuilds(deps: BuildReconcilerDeps, turns: BuildTurns, ref: string): Promise<Outcome> {
  const project = deps.projects.get(ref);
  await stopDeleted(deps, turns, ref);
  if (!project || project.metadata.deletionTimestamp) {
    turns.lastChecks.delete(ref);
    return turns.ending.has(ref) ? { kind: 'again', afterMs: RESYNC_MS } : { kind: 'done' };
  }
  for (const build of buildsOf(deps, ref).filter(isBuildRunning)) await follow(deps, project, build);
  await clearCache(deps, project);
  await numberAll(deps, ref);
  await removePreviews(deps, project);
  await supersede(deps, ref);
  const waiting = buildsOf(deps, ref).filter(isBuildWaiting);
  for (const build of [...waiting.filter(isOfSite), ...waiting.filter((each) => !isOfSite(each))]) {
    await begin(deps, turns, { project, build });
  }
  await prune(deps, ref);
  const isActive = turns.ending.has(ref) || buildsOf(deps, ref).some((build) => !isBuildFinished(build));
  const checkMs = await checkPushes(deps, turns, project);
  if (isActive) return { kind: 'again', afterMs: RESYNC_MS };
  return checkMs === undefined ? { kind: 'done' } : { kind: 'again', afterMs: checkMs };
}

/** Queues a check for missed pushes if one is due. Returns the time until the next one. Undefined: none is planned. */
async function checkPushes(
  { client, engine, builds, now, pushCheckMs }: BuildReconcilerDeps,
  { lastChecks }: BuildTurns,
  project: Project,
): Promise<number | undefined> {
  const ref = project.metadata.name;
  const all = builds.find(BY_NAMESPACE, namespaceOf(ref));
  const check = engine.checksPushes ? pushCheckOf(project, all, pushCheckMs) : undefined;
  if (!check) return undefined;
  const time = now().getTime();
  const last = lastChecks.get(ref) ?? time - Math.random() * check.afterMs;
  lastChecks.set(ref, last);
  const restMs = last + check.afterMs - time;
  if (restMs > 0) return restMs;
  const metadata = { name: check.name, labels: { [LABEL_PROJECT]: ref } };
  const body: Build = { apiVersion: API_VERSION, kind: 'Build', metadata, spec: check.spec };
  await client.create<Build>(`/apis/${API_VERSION}/namespaces/${namespaceOf(ref)}/builds`, body).catch((error) => {
    // A deploy has just taken the name. It builds the newest commit too.
    if (!isConflict(error)) throw error;
  });
  lastChecks.set(ref, time);
  return check.afterMs;
}

function buildsOf({ builds }: BuildReconcilerDeps, ref: string): Build[] {
  const all = builds.find(BY_NAMESPACE, namespaceOf(ref));
  return buildsInOrder(all.filter(({ metadata }) => !metadata.deletionTimestamp));
}

/** Requests the end of a build. Returns false if processes of it are left: the engine reports their end. */
async function stop(engine: Builds, id: BuildName): Promise<boolean> {
  await engine.stop(id);
  const state = engine.stateOf(id);
  return state === undefined || state.end !== undefined;
}

async function stopDeleted(deps: BuildReconcilerDeps, { ending, lookAtWaiting }: BuildTurns, ref: string) {
  const { engine, time } = deps;
  const project = deps.projects.get(ref);
  const isGone = !project || project.metadata.deletionTimestamp !== undefined;
  const names = new Set(isGone ? [] : buildsOf(deps, ref).map(({ metadata }) => metadata.name));
  const known = new Map(ending.get(ref)?.map((build) => [build.metadata.name, build]));
  const deleted = engine.started(ref).filter((started) => !names.has(started));
  let left = deleted.map((name) => known.get(name) ?? deletedBuild(engine, { ref, name }));
  if (left.length > 0) ending.set(ref, left);
  for (const build of left) {
    const id = { ref, name: build.metadata.name };
    if (!(await stop(engine, id))) continue;
    if (build.status?.startedAt !== undefined) await time.add(ref, time.elapsed(build));
    engine.forget(id);
    left = left.filter((each) => each !== build);
  }
  if (left.length > 0) ending.set(ref, left);
  else if (ending.delete(ref)) lookAtWaiting();
}

/** Returns a substitute for a Build whose object is deleted, with the members that the order of builds needs. */
function deletedBuild(engine: Builds, id: BuildName): Build {
  const startedAt = engine.stateOf(id)?.steps[0]?.startedAt.toISOString();
  return {
    apiVersion: API_VERSION,
    kind: 'Build',
    metadata: { name: id.name, namespace: namespaceOf(id.ref) },
    spec: { project: id.ref },
    status: { phase: 'Cloning', ...(startedAt === undefined ? {} : { startedAt }) },
  };
}

/** Returns why a running build is stopped. Undefined: it continues. */
function whyStopped(deps: BuildReconcilerDeps, project: Project, build: Build): Finding | undefined {
  if (isCancelled(build)) return CANCELLED;
  if (isSuspended(project)) return { phase: 'Queued', ...WAITS_SUSPENDED };
  const rollback = isOfSite(build) ? nextRollback(deps, project) : undefined;
  return rollback && { phase: 'Cancelled', ...supersededBy(rollback) };
}

/**
 * Returns the next rollback. It does not wait for a running build: that build is older, and would replace the
 * rolled-back site.
 */
function nextRollback(deps: BuildReconcilerDeps, project: Project): Build | undefined {
  const waiting = buildsOf(deps, project.metadata.name).filter((build) => isBuildWaiting(build) && isOfSite(build));
  const next = newestOf(waiting.filter((build) => !isCancelled(build)));
  return next?.spec.deployment !== undefined && !refuse(project, next) ? next : undefined;
}

/** Records the state of a build that its status shows as running. */
async function follow(deps: BuildReconcilerDeps, project: Project, build: Build): Promise<void> {
  const ref = project.metadata.name;
  const id = { ref, name: build.metadata.name };
  const { engine } = deps;
  const why = whyStopped(deps, project, build);
  if (why) {
    if (!(await stop(engine, id))) return;
    if (engine.stateOf(id)?.end?.kind !== 'deployed') {
      // The output may have gone live before the engine recorded it.
      const live = await ifLive(engine, build, ref);
      engine.forget(id);
      return write(deps, build, live ?? why);
    }
  }
  const state = engine.stateOf(id);
  if (!state) return write(deps, build, await afterDeath(engine, build, ref));
  const progress = deps.statuses.write(build, progressOf(build, state, deps.now()));
  if (!state.end) return void (await progress);
  // A build whose progress the API server refuses must still end. Otherwise it would keep its place for ever.
  await progress.catch((error: Error) => {
    deps.log.warn({ ref, build: id.name, why: error.message }, 'build progress not recorded');
  });
  const isDisplaced = state.end.kind === 'stopped' && isBehindSite(deps, ref, build);
  const finding = isDisplaced ? DISPLACED : ofEnd(build, state.end);
  await write(deps, deps.builds.get(id.name, namespaceOf(ref)) ?? build, finding);
  engine.forget(id);
  if (state.end.kind === 'unneeded') await deleteBuild(deps, build);
}

/** True for a preview while a build of its project's site waits or runs: the site's build may have stopped it. */
const isBehindSite = (deps: BuildReconcilerDeps, ref: string, build: Build): boolean =>
  !isOfSite(build) && buildsOf(deps, ref).some((other) => isOfSite(other) && !isBuildFinished(other));

/** Clears the cache and removes the annotation. While a build runs it keeps its cache, and the annotation stays. */
async function clearCache({ client, engine }: BuildReconcilerDeps, { metadata }: Project): Promise<void> {
  const { name: ref, uid, resourceVersion } = metadata;
  if (metadata.annotations?.[ANNOTATION_CLEAR_BUILD_CACHE] === undefined || !(await engine.clearCache(ref))) return;
  // The patch has the resourceVersion that was read, because an annotation that was set since then requests another
  // clearance.
  const annotations = { [ANNOTATION_CLEAR_BUILD_CACHE]: null };
  await client.patch(projectPath(ref), { metadata: { uid, resourceVersion, annotations } });
}

/** Numbers all builds, also those with other names from kubectl: REST names builds by their number. */
async function numberAll(deps: BuildReconcilerDeps, ref: string): Promise<void> {
  const builds = buildsOf(deps, ref);
  let number = Math.max(0, ...builds.map((build) => numberOfBuild(build) ?? 0));
  for (const build of builds.filter((each) => numberOfBuild(each) === undefined)) {
    number += 1;
    await deps.statuses.write(build, { ...build.status, number });
  }
}

/**
 * Returns the finding for a build whose machine or operator stopped. Its output is live, or it produced none that
 * anybody sees.
 */
async function afterDeath(engine: Builds, build: Build, ref: string): Promise<Finding> {
  return (
    (await ifLive(engine, build, ref)) ??
    again(build, { reason: 'Interrupted', message: 'the machine that ran the build stopped' })
  );
}

/** Undefined: the output of the build is not live. */
async function ifLive(engine: Builds, build: Build, ref: string): Promise<Finding | undefined> {
  const live = await engine.liveBuild(siteOf(build, ref));
  return live === build.metadata.name ? { phase: 'Deployed', message: deployedMessage(build) } : undefined;
}

function again(build: Build, { reason, message }: { reason: string; message: string }): Finding {
  const attempts = build.status?.attempts ?? 1;
  if (attempts >= BUILD_BUDGET.attempts) {
    return {
      phase: 'Failed',
      reason,
      message: `${message}, at attempt ${attempts} of ${BUILD_BUDGET.attempts}: deploy again`,
    };
  }
  return { phase: 'Queued', reason, message: `begins again: ${message}` };
}

function ofEnd(build: Build, end: BuildEnd): Finding {
  switch (end.kind) {
    case 'deployed':
      return { phase: 'Deployed', message: deployedMessage(build), at: end.at, bytes: end.bytes };
    case 'unneeded':
      return { phase: 'Cancelled', reason: 'Superseded', message: 'the newest commit was built before' };
    case 'stopped':
      return again(build, { reason: 'Interrupted', message: 'the build was stopped' });
    case 'failed':
      return end.retry ? again(build, end) : { phase: 'Failed', ...end };
  }
}

async function removePreviews(deps: BuildReconcilerDeps, project: Project): Promise<void> {
  const ref = project.metadata.name;
  if (removalsOf(project, buildsOf(deps, ref)).length === 0) return;
  // The cache of Projects may be behind an owner who has just switched previews on.
  const current = await deps.client.get<Project>(projectPath(ref));
  for (const { build, finding } of removalsOf(current, buildsOf(deps, ref))) {
    const id = { ref, name: build.metadata.name };
    if (isBuildRunning(build)) {
      if (!(await stop(deps.engine, id))) continue;
      deps.engine.forget(id);
    }
    await write(deps, build, finding);
  }
}

/** Supersedes builds: the newest waiting build of a branch includes the commits of the others. */
async function supersede(deps: BuildReconcilerDeps, ref: string): Promise<void> {
  const waiting = buildsOf(deps, ref).filter(isBuildWaiting);
  for (const build of waiting.filter(isCancelled)) await write(deps, build, CANCELLED);
  const wanted = waiting.filter((build) => !isCancelled(build));
  for (const ofBranch of Map.groupBy(wanted, ({ spec }) => spec.preview).values()) {
    const newest = newestOf(ofBranch) as Build;
    for (const build of ofBranch.filter((each) => each !== newest)) {
      await write(deps, build, { phase: 'Cancelled', ...supersededBy(newest) });
    }
  }
}

/** Returns the newest build. A check for missed pushes may build nothing, so it supersedes no other build. */
const newestOf = (builds: readonly Build[]): Build | undefined =>
  builds.findLast(({ spec }) => spec.unless === undefined) ?? builds.at(-1);

const supersededBy = ({ metadata }: Build) => ({ reason: 'Superseded', message: `superseded by ${metadata.name}` });

async function begin(
  deps: BuildReconcilerDeps,
  turns: BuildTurns,
  { project, build }: { project: Project; build: Build },
): Promise<void> {
  const ref = project.metadata.name;
  const refusal = refuse(project, build);
  if (refusal) return write(deps, build, refusal);
  if (build.spec.deployment !== undefined) return rollBack(deps, turns, build, build.spec.deployment);
  const { engine } = deps;
  if (engine.lacking !== undefined) {
    return write(deps, build, { phase: 'Queued', reason: 'NoBuilder', message: `waits: ${engine.lacking}` });
  }
  if (!mayBuild(project)) return write(deps, build, { phase: 'Queued', ...WAITS_SUSPENDED });
  const ofSite = isOfSite(build);
  if (buildsOf(deps, ref).some((other) => isBuildRunning(other) && isOfSite(other) === ofSite)) {
    const message = ofSite
      ? 'waits for the build of this project that runs'
      : 'waits for another preview that is built';
    return write(deps, build, { phase: 'Queued', reason: 'Waiting', message });
  }
  const line = lineOf(deps, turns);
  const next = nextInLine(line);
  if (next.some((turn) => turn.ref === ref && turn.ofSite === ofSite)) return start(deps, turns, { project, build });
  if (ofSite && (await takePlaceOfPreview(deps, project, line))) return start(deps, turns, { project, build });
  for (const other of next) if (other.ref !== ref) turns.look(other.ref);
  await write(deps, build, { phase: 'Queued', ...whyWaits(line, project, ofSite) });
}

function whyWaits(line: Line, project: Project, ofSite: boolean): { reason: string; message: string } {
  if (hasUsedUp(line, project)) {
    const { millisecondsADay } = ACCOUNT_BUILD_LIMITS[project.spec.plan ?? 'free'];
    const message = `waits: builds of its owner have used the ${millisecondsADay / 60_000} minutes of this day (UTC)`;
    return { reason: 'BuildTimeUsed', message };
  }
  if (hasAllPlaces(line, project)) return { reason: 'Waiting', message: 'waits for other builds of its owner' };
  return { reason: 'Waiting', message: ofSite ? 'waits for builds of other projects' : 'waits for other builds' };
}

function lineOf({ builds, engine, projects, time }: BuildReconcilerDeps, { lastStarts, ending }: BuildTurns): Line {
  const projectOf = (ref: string | undefined) => (ref === undefined ? undefined : projects.get(ref));
  // Builds of a deleted project were stopped. If the project is retained, its Builds stay as they were.
  const isStopped = ({ metadata }: Build) => {
    const project = projectOf(refOfNamespace(metadata.namespace));
    return !project || project.metadata.deletionTimestamp !== undefined;
  };
  const running = builds.find(BY_ACTIVITY, 'running').filter((build) => !isStopped(build));
  const used = time.byAccount();
  for (const build of running) {
    const account = accountOf(projectOf(refOfNamespace(build.metadata.namespace)) as Project);
    used.set(account, (used.get(account) ?? 0) + time.elapsed(build));
  }
  return {
    waiting: builds.find(BY_ACTIVITY, 'waiting'),
    running: [...running, ...[...ending.values()].flat()],
    usedBy: (account) => used.get(account) ?? 0,
    atOnce: engine.atOnce,
    projectOf,
    lastStartOf: (account) => lastStarts.get(account) ?? 0,
  };
}

/**
 * Stops a preview's build in favour of the same project's site. The preview starts again later. Returns false if the
 * site would not be next even then.
 */
async function takePlaceOfPreview(deps: BuildReconcilerDeps, project: Project, line: Line): Promise<boolean> {
  const ref = project.metadata.name;
  const preview = buildsOf(deps, ref).find((build) => isBuildRunning(build) && !isOfSite(build));
  if (!preview) return false;
  const running = line.running.filter(({ metadata }) => metadata.uid !== preview.metadata.uid);
  const isNext = ({ ref: other, ofSite }: Turn) => other === ref && ofSite;
  if (!nextInLine({ ...line, running }).some(isNext)) return false;
  const id = { ref, name: preview.metadata.name };
  if (!(await stop(deps.engine, id))) return false;
  // The preview may have ended before it was stopped.
  if (deps.engine.stateOf(id)?.end?.kind !== 'stopped') {
    await follow(deps, project, preview);
    return true;
  }
  deps.engine.forget(id);
  await write(deps, preview, DISPLACED);
  return true;
}

/** Publishes an earlier output. A rollback needs no place, but waits for the end of the build that it supersedes. */
async function rollBack(
  deps: BuildReconcilerDeps,
  { ending }: BuildTurns,
  build: Build,
  deployment: string,
): Promise<void> {
  const { engine } = deps;
  const ref = build.spec.project;
  if (ending.has(ref) || buildsOf(deps, ref).some((other) => isBuildRunning(other) && isOfSite(other))) {
    const message = 'waits for the end of the build that runs';
    return write(deps, build, { phase: 'Queued', reason: 'Waiting', message });
  }
  return write(deps, build, ofRollback(await engine.goLive({ ref, name: deployment }), deployment));
}

function ofRollback(rollback: Rollback, deployment: string): Finding {
  switch (rollback.kind) {
    case 'live':
      return { phase: 'Deployed', message: `${deployment} is live again` };
    case 'pending':
      return { phase: 'Queued', reason: 'RollingBack', message: rollback.message };
    case 'absent': {
      const message = `the output of ${deployment} is not kept: deploy its commit again`;
      return { phase: 'Failed', reason: 'NoSuchDeployment', message };
    }
    case 'failed':
      return { phase: 'Failed', reason: rollback.reason, message: rollback.message };
  }
}

function refuse(project: Project, { spec }: Build): Finding | undefined {
  const ref = project.metadata.name;
  const fail = (reason: string, message: string): Finding => ({ phase: 'Failed', reason, message });
  if (spec.project !== ref) {
    return fail(
      'WrongProject',
      `spec.project is not ${ref}, whose namespace the Build is in: create the Build in p-${spec.project}`,
    );
  }
  const type = typeOf(project);
  if (!TYPES[type].isBuilt) return fail('WrongType', `a ${type} project is not built from a git repository`);
  if (!project.spec.source?.repoUrl) {
    return fail('NoRepository', 'the project has no repository: set spec.source.repoUrl, then make another Build');
  }
  return undefined;
}

async function start(
  deps: BuildReconcilerDeps,
  { lastStarts, lookAtWaiting }: BuildTurns,
  { project, build }: { project: Project; build: Build },
): Promise<void> {
  const ticket = newTicket();
  // The cache of Projects may not have the owner's changes before the deploy yet.
  const current = await deps.client.get<Project>(projectPath(project.metadata.name));
  await clearCache(deps, current);
  const lack = await makeRoom(deps, current);
  if (lack) {
    await write(deps, build, lack);
    // The place stays free, for another build that waits.
    return lookAtWaiting();
  }
  const order = await orderOf(deps, current, build);
  const status = statusOf(build, { phase: 'Cloning', ticketDigest: digestOf(ticket) }, deps.now());
  await deps.statuses.write(build, status);
  lastStarts.set(accountOf(project), deps.now().getTime());
  deps.engine.start({ ...order, ticket });
}

/**
 * Makes room for the next build if the project or its account exceeds its share of the disk: caches go first, then the
 * site's former deployments. Returns the reason if that is not enough.
 */
async function makeRoom(deps: BuildReconcilerDeps, project: Project): Promise<Finding | undefined> {
  const lack = await lackOfDisk(deps, project);
  if (!lack) return undefined;
  for (const ref of lack.refs) await deps.engine.clearCache(ref);
  const left = await lackOfDisk(deps, project);
  if (!left) return undefined;
  await prune(deps, project.metadata.name, 0);
  const rest = await lackOfDisk(deps, project);
  return rest && { phase: 'Failed', reason: 'DiskShareUsed', message: rest.message };
}

/** `deployments`: how many of the site's former deployments are kept. */
async function prune(deps: BuildReconcilerDeps, ref: string, deployments = DEPLOYMENTS_KEPT): Promise<void> {
  const builds = buildsOf(deps, ref);
  const previews = previewBuildsOf(builds);
  const old = [
    ...beyond(BUILD_BUDGET.buildsOfProject, builds.filter(isOfSite)),
    ...beyond(
      BUILD_BUDGET.buildsOfPreviews,
      builds.filter((build) => !isOfSite(build)),
      new Set(previews),
    ),
  ];
  for (const build of old) await deleteBuild(deps, build);
  const kept = builds.filter((build) => !old.includes(build)).map(({ metadata }) => metadata.name);
  await deps.engine.keepOnly(ref, {
    builds: new Set(kept),
    previews: new Set(previews.map((build) => siteOf(build, ref))),
    deployments,
  });
}

async function deleteBuild({ client }: BuildReconcilerDeps, build: Build): Promise<void> {
  await client.delete(buildPath(build)).catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
  });
}

/** Returns the oldest ended builds, so that no more than `most` remain. */
function beyond(most: number, builds: readonly Build[], needed: ReadonlySet<Build> = new Set()): Build[] {
  const ended = builds.filter((build) => isBuildFinished(build) && !needed.has(build));
  return ended.slice(0, Math.max(0, builds.length - most));
}

async function write(deps: BuildReconcilerDeps, build: Build, finding: Finding): Promise<void> {
  const ref = refOfNamespace(build.metadata.namespace);
  const elapsed = deps.time.elapsed(build);
  await deps.statuses.write(build, statusOf(build, finding, deps.now()));
  // The time is added after the write: a failed write is repeated, and the time counts once.
  if (ref !== undefined && isBuildRunning(build)) await deps.time.add(ref, elapsed);
}

const deployedMessage = (build: Build) => (isOfSite(build) ? 'it is live' : 'the preview is live');
const CANCELLED: Finding = { phase: 'Cancelled', reason: 'Cancelled', message: 'the build was cancelled' };
const DISPLACED: Finding = {
  phase: 'Queued',
  reason: 'Waiting',
  message: 'begins again: the site is built first',
  isUncounted: true,
};
const WAITS_SUSPENDED = { reason: 'Suspended', message: 'waits: the project is suspended' };
