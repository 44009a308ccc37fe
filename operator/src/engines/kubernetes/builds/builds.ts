/**
 * Builds of a cluster: a Job for each in `slipway-builds`, with output and log in the store of sites. In: orders. Out:
 * the progress of each build, from its pod. A build runs without the operator: another operator finds its Job and
 * follows it. Only builds that a Build's status shows as running are followed, so an old Job publishes nothing.
 */
import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  ANNOTATION_BUILD,
  ANNOTATION_SITE,
  BUILD_CERTIFICATES_SECRET,
  BUILD_EGRESS_PORT,
  BUILDS_NAMESPACE,
  LABEL_BUILD_OF,
  PROGRAMS,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import { type CloneOrder, markOf, secretValuesOf } from '@slipway/kaniko-build-wrapper';
import { Informer, isNotFound, type KubeClient, type KubeObject, type Secret } from '@slipway/kubernetes';
import { type JsonBound, parseJson } from '@slipway/program';
import { type ContentStoreClient, signGrant } from '@slipway/sites';
import type { Logger } from 'pino';
import type {
  BuildEnd,
  BuildName,
  BuildOrder,
  BuildState,
  Builds,
  KeptBuilds,
  Rollback,
} from '../../../capabilities/index.js';
import type { Metrics } from '../../../runtime/metrics.js';
import { keptOutputs, outputLimitsOf } from '../../outputs.js';
import { type BuildsSite, buildJob, buildSecret, CONTAINERS } from './build-job.js';
import { type BuildPod, endOfJob, hasStarted, NOT_RUN, stateOfPod } from './job-state.js';
import { LogFollower } from './log-follower.js';
import { userNamespacesOn } from './user-namespaces.js';

export interface KubernetesBuildsOptions {
  client: KubeClient;
  store: ContentStoreClient;
  /** Returns the token that signs tokens for the store. */
  storeToken(): Promise<string>;
  site: BuildsSite;
  metrics: Metrics;
  log: Logger;
}

interface JobObject extends KubeObject {
  status?: { conditions?: { type: string; status: string; reason?: string }[] };
}

interface Running {
  /** The name of the Job. */
  job: string;
  /** The site that the output belongs to. */
  site: string;
  /** Resolves when no object of the build is being created any longer. */
  created: Promise<unknown>;
  /** Undefined until the log is followed. */
  follower: LogFollower | undefined;
  end: BuildEnd | undefined;
  stop: AbortController;
  /** True once the operator will neither create a Job for the build nor publish its output. */
  isOver: boolean;
  /** True once `stop` was called. */
  isStopped: boolean;
}

const JOBS = `/apis/batch/v1/namespaces/${BUILDS_NAMESPACE}/jobs`;
const PODS = `/api/v1/namespaces/${BUILDS_NAMESPACE}/pods`;
const SECRETS = `/api/v1/namespaces/${BUILDS_NAMESPACE}/secrets`;
const EGRESS = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/services/${PROGRAMS.egress}`;
const LOOK_MS = 250;
const RETRY_MS = 1_000;
/** Milliseconds in which a write to the log, or a request to an unavailable store, is tried again. */
const PATIENCE_MS = 60_000;
const REMOVAL_MS = 60_000;
/**
 * Milliseconds without output after which a log stream is closed. They are more than any build takes, because a command
 * may print nothing until it exits.
 */
const SILENCE_MS = 2 * 60 * 60_000;
/**
 * Milliseconds for which a build's token is valid after the deadline of the build, because the publication may come at
 * its very end.
 */
const TOKEN_GRACE_MS = 10 * 60_000;
const BY_PROJECT = 'project';
const BY_JOB = 'job';
const ORDER: JsonBound = { bytes: 1024 * 1024, depth: 5, values: 5_000 };

export class KubernetesBuilds implements Builds {
  readonly atOnce: number;
  readonly lacking: string | undefined;
  readonly checksPushes = true;
  readonly #options: KubernetesBuildsOptions;
  readonly #jobs: Informer<JobObject>;
  readonly #pods: Informer<BuildPod>;
  readonly #running = new Map<string, Running>();
  /** Names of Jobs that are deleted, or are about to be. */
  readonly #forgotten = new Set<string>();
  #notify: (ref: string) => void = () => {};

  constructor(options: KubernetesBuildsOptions) {
    this.#options = options;
    const { client, metrics, log, site } = options;
    this.atOnce = site.builds.atOnce;
    this.lacking = site.builds.image === undefined ? 'builds.image is not set in the settings of its site' : undefined;
    const shared = { client, metrics, log, labelSelector: LABEL_BUILD_OF };
    this.#jobs = new Informer<JobObject>({
      ...shared,
      resource: 'jobs',
      path: JOBS,
      indexes: { [BY_PROJECT]: ({ metadata }) => [metadata.labels?.[LABEL_BUILD_OF] ?? ''] },
      keep: ({ metadata, status }) => ({ metadata, ...(status ? { status } : {}) }),
    });
    this.#pods = new Informer<BuildPod>({
      ...shared,
      resource: 'build-pods',
      path: PODS,
      indexes: { [BY_JOB]: ({ metadata }) => [metadata.ownerReferences?.[0]?.name ?? ''] },
      keep: ({ metadata, status }) => ({ metadata, ...(status ? { status } : {}) }),
    });
    this.#jobs.onChange(({ before, after }) => {
      const job = (after ?? before) as JobObject;
      if (!after) this.#onDeleted(job);
      this.#notify(refOf(job));
    });
    this.#pods.onChange(({ before, after }) => this.#notify(refOf((after ?? before) as BuildPod)));
  }

  informers(): Informer<KubeObject>[] {
    return [this.#jobs, this.#pods] as unknown as Informer<KubeObject>[];
  }

  start(order: BuildOrder): void {
    if (this.#running.has(keyOf(order))) return;
    const job = jobNameOf(order);
    const stop = new AbortController();
    const created = this.#create(order, job, stop.signal);
    const running = { ...NEW, job, site: order.site, created, stop };
    this.#running.set(keyOf(order), running);
    void this.#run(order, running, created);
  }

  started(ref: string): string[] {
    const jobs = this.#jobs.find(BY_PROJECT, ref).filter(({ metadata }) => !this.#forgotten.has(metadata.name));
    const own = [...this.#running.keys()].filter((key) => key.startsWith(`${ref}/`));
    return [...new Set([...jobs.map(buildOf), ...own.map((key) => key.slice(ref.length + 1))])];
  }

  stateOf(build: BuildName): BuildState | undefined {
    const running = this.#running.get(keyOf(build)) ?? this.#adopt(build, true);
    if (!running) return undefined;
    const { end, follower, job } = running;
    return { ...stateOfPod(this.#podOf(job), follower?.marks ?? {}), ...(end ? { end } : {}) };
  }

  async stop(build: BuildName): Promise<void> {
    const running = this.#running.get(keyOf(build)) ?? this.#adopt(build, false);
    if (!running) return;
    running.isStopped = true;
    running.stop.abort(new Error('stopped'));
    // Read before the deletion: otherwise a Job could be created between the two.
    const { isOver } = running;
    const areGone = await Promise.all(this.#jobsOf(build, running).map((job) => this.#delete(job, 'Foreground')));
    if (isOver && areGone.every(Boolean)) endStopped(running);
  }

  forget(build: BuildName): void {
    const running = this.#running.get(keyOf(build));
    running?.stop.abort(new Error('forgotten'));
    this.#running.delete(keyOf(build));
    for (const job of this.#jobsOf(build, running)) {
      if (this.#jobs.get(job, BUILDS_NAMESPACE)) this.#forgotten.add(job);
      this.#delete(job, 'Background').catch((error: Error) => {
        this.#options.log.warn({ ...build, job, why: error.message }, 'build job not deleted');
      });
    }
  }

  async goLive({ ref, name }: BuildName): Promise<Rollback> {
    return { kind: (await this.#options.store.goLive(ref, name)) ? 'live' : 'absent' };
  }

  liveBuild(site: string): Promise<string | undefined> {
    return this.#options.store.liveId(site);
  }

  async keepOnly(ref: string, { builds, previews, deployments }: KeptBuilds): Promise<void> {
    const started = this.started(ref);
    const own = started.flatMap((name) => this.#running.get(keyOf({ ref, name }))?.site ?? []);
    const written = [...own, ...this.#jobs.find(BY_PROJECT, ref).map(siteOfJob)];
    await this.#options.store.keepOnly(ref, [...builds, ...started], keptOutputs(previews, written, deployments));
  }

  diskBytes(ref: string): Promise<number | undefined> {
    return this.#options.store.bytes(ref);
  }

  /** Nothing to clear: each build begins with an empty volume. */
  async clearCache(): Promise<boolean> {
    return true;
  }

  async remove(ref: string): Promise<void> {
    for (const name of this.started(ref)) {
      const running = this.#running.get(keyOf({ ref, name }));
      running?.stop.abort(new Error('removed'));
      await running?.created.catch(() => undefined);
      await Promise.all(this.#jobsOf({ ref, name }, running).map((job) => this.#deleteWhole(job)));
      this.forget({ ref, name });
    }
    await this.#options.store.remove(ref);
  }

  onChange(listener: (ref: string) => void): void {
    this.#notify = listener;
  }

  /** Stops following. The builds run on, and the operator that leads next follows them. */
  async close(): Promise<void> {
    for (const { stop } of this.#running.values()) stop.abort(new Error('the operator stops'));
    await this.#options.store.close();
  }

  /** Adopts a Job of an earlier operator, to follow it or only to delete it. Undefined: there is none. */
  #adopt(build: BuildName, isFollowed: boolean): Running | undefined {
    const [job] = this.#jobsOf(build, undefined);
    if (job === undefined) return undefined;
    const object = this.#jobs.get(job, BUILDS_NAMESPACE);
    const site = object ? siteOfJob(object) : build.ref;
    const [created, stop] = [Promise.resolve(), new AbortController()];
    const running: Running = { ...NEW, job, site, created, stop, isOver: !isFollowed };
    this.#running.set(keyOf(build), running);
    if (isFollowed) void this.#run(build, running, this.#orderIn(job));
    return running;
  }

  #onDeleted({ metadata }: JobObject): void {
    this.#forgotten.delete(metadata.name);
    for (const running of this.#running.values()) {
      // Nobody may call `stop` again.
      if (running.job === metadata.name && running.isStopped && running.isOver) endStopped(running);
    }
  }

  /** Runs and follows the build. Never rejects: the build's end has the error. */
  async #run(build: BuildName, running: Running, ordered: Promise<LogOrder>): Promise<void> {
    const { signal } = running.stop;
    try {
      running.follower = this.#followerOf(build, running.job, await ordered);
      const end = await this.#follow(build, running, running.follower);
      if (!signal.aborted || end.kind === 'deployed') running.end = end;
    } catch (error) {
      if (!signal.aborted) {
        this.#options.log.error({ ref: build.ref, build: build.name, err: error }, 'build not run');
        running.end = { ...NOT_RUN, at: new Date() };
      }
    }
    running.isOver = true;
    // The first call may have come before the Job was created.
    if (running.isStopped && !running.end && this.#running.get(keyOf(build)) === running) {
      await this.stop(build).catch((error: Error) =>
        this.#options.log.warn({ ...build, why: error.message }, 'build job not deleted'),
      );
    }
    this.#notify(build.ref);
  }

  async #create(order: BuildOrder, name: string, signal: AbortSignal): Promise<LogOrder> {
    const { client, store, storeToken, site } = this.#options;
    const { limits, env } = order;
    await Promise.all(this.#jobsOf(order, undefined).map((job) => this.#deleteWhole(job)));
    await store.discard(order.site, order.name);
    const { spec } = await client.get<KubeObject & { spec: { clusterIP: string } }>(EGRESS);
    const address = spec.clusterIP.includes(':') ? `[${spec.clusterIP}]` : spec.clusterIP;
    const expiresAt = Date.now() + limits.milliseconds + TOKEN_GRACE_MS;
    const grant = { ref: order.site, build: order.name, limits: outputLimitsOf(order), expiresAt };
    const publishToken = signGrant(grant, await storeToken());
    const certificates = await this.#certificates();
    const egressUrl = `http://${address}:${BUILD_EGRESS_PORT}`;
    const hasUserNamespaces = await userNamespacesOn(client, site.builds.userNamespaces);
    const place = { name, site, egressUrl, publishToken, certificates, hasUserNamespaces };
    signal.throwIfAborted();
    const job = await client.create<KubeObject>(JOBS, buildJob(order, place));
    await client.create<KubeObject>(SECRETS, buildSecret(order, place, job.metadata.uid as string));
    return { env, logBytes: limits.logBytes };
  }

  async #certificates(): Promise<string | undefined> {
    const { name, certificates } = BUILD_CERTIFICATES_SECRET;
    const path = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets/${name}`;
    const secret = await this.#options.client.get<Secret>(path).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
    const encoded = secret?.data?.[certificates];
    return encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString();
  }

  /** Returns the variables and the limit of the log of a running Job. */
  async #orderIn(job: string): Promise<LogOrder> {
    const { data } = await this.#options.client.get<Secret>(`${SECRETS}/${job}`);
    return parseJson(Buffer.from(data?.clone ?? '', 'base64'), ORDER) as CloneOrder;
  }

  #followerOf({ ref, name }: BuildName, job: string, { env, logBytes }: LogOrder): LogFollower {
    return new LogFollower({
      store: this.#options.store,
      ref,
      build: name,
      secrets: secretValuesOf(env),
      limit: logBytes,
      mark: markOf(job),
      now: () => new Date(),
      onMark: () => this.#notify(ref),
    });
  }

  async #follow(build: BuildName, { job, site, stop }: Running, follower: LogFollower): Promise<BuildEnd> {
    const { signal } = stop;
    for (const container of CONTAINERS) {
      const pod = await this.#untilStarted(job, container, signal);
      if (!pod) break;
      await this.#persist(signal, build, 'build log not stored', async () => {
        const query = { container, follow: 'true', limitBytes: String(LOG_BYTES) };
        const request = { method: 'GET' as const, path: `${PODS}/${pod}/log`, query, signal };
        await follower.follow(container, this.#options.client.bytes(request, SILENCE_MS));
      });
    }
    const end = await this.#untilEnd(job, follower, signal);
    if (end.kind !== 'published') return { ...end, at: new Date() };
    const isLive = await this.#persist(signal, build, 'deployment not published', async () => {
      signal.throwIfAborted();
      if (!(await this.#options.store.goLive(site, build.name))) throw new Error('the store has no deployment');
    });
    return isLive ? { ...end, kind: 'deployed', at: new Date() } : { ...NOT_RUN, at: new Date() };
  }

  /** Returns the name of the pod when its container has started. Undefined: the Job has ended before. */
  async #untilStarted(job: string, container: (typeof CONTAINERS)[number], signal: AbortSignal) {
    for (;;) {
      const pod = this.#podOf(job);
      if (pod && hasStarted(pod, container)) return pod.metadata.name;
      if (this.#endOf(job, undefined)) return undefined;
      await pause(LOOK_MS, undefined, { signal });
    }
  }

  async #untilEnd(job: string, follower: LogFollower, signal: AbortSignal) {
    for (;;) {
      const end = this.#endOf(job, follower);
      if (end) return end;
      await pause(LOOK_MS, undefined, { signal });
    }
  }

  #endOf(name: string, follower: LogFollower | undefined) {
    const job = this.#jobs.get(name, BUILDS_NAMESPACE);
    const failure = job?.status?.conditions?.find(({ type, status }) => FAILURES.has(type) && status === 'True');
    return endOfJob(this.#podOf(name), failure && (failure.reason ?? 'Failed'), follower?.marks ?? {});
  }

  /** Runs work, and retries it for PATIENCE_MS while it fails at once. Returns false if it did not succeed. */
  async #persist(signal: AbortSignal, build: BuildName, message: string, work: () => Promise<void>): Promise<boolean> {
    for (let begin = performance.now(); ; ) {
      const attempt = performance.now();
      try {
        await work();
        return true;
      } catch (error) {
        signal.throwIfAborted();
        // A stream that broke after a while gets the full time again. Only a stream that can't be opened does not.
        if (performance.now() - attempt > PATIENCE_MS) begin = performance.now();
        if (performance.now() - begin > PATIENCE_MS) {
          this.#options.log.warn({ ref: build.ref, build: build.name, why: (error as Error).message }, message);
          return false;
        }
        await pause(RETRY_MS, undefined, { signal });
      }
    }
  }

  #podOf(job: string): BuildPod | undefined {
    return this.#pods.find(BY_JOB, job)[0];
  }

  #jobsOf(build: BuildName, running: Running | undefined): string[] {
    const known = this.#jobs
      .find(BY_PROJECT, build.ref)
      .filter((job) => buildOf(job) === build.name && !this.#forgotten.has(job.metadata.name))
      .map(({ metadata }) => metadata.name);
    return [...new Set([...known, ...(running ? [running.job] : [])])];
  }

  /** Requests the deletion of a Job. Returns true if it is already deleted; in the foreground, with its pods. */
  async #delete(job: string, propagationPolicy: 'Foreground' | 'Background'): Promise<boolean> {
    const request = { method: 'DELETE' as const, path: `${JOBS}/${job}`, query: { propagationPolicy } };
    try {
      await this.#options.client.request(request);
      return false;
    } catch (error) {
      if (!isNotFound(error)) throw error;
      return true;
    }
  }

  /** Resolves when the Job and its pods are deleted, and after REMOVAL_MS at the latest. */
  async #deleteWhole(job: string): Promise<void> {
    for (const begin = performance.now(); performance.now() - begin < REMOVAL_MS; await pause(LOOK_MS))
      if (await this.#delete(job, 'Foreground')) return;
  }
}

const NEW = { follower: undefined, end: undefined, isOver: false, isStopped: false };

function endStopped(running: Running): void {
  running.end ??= { kind: 'stopped', at: new Date() };
}

interface LogOrder {
  env: Readonly<Record<string, string>>;
  logBytes: number;
}

/** Types of conditions of a failed Job. FailureTarget comes first, while the pods of the Job are being ended. */
const FAILURES = new Set(['Failed', 'FailureTarget']);

/** Maximum bytes of a build's log in the store: more than the log of any plan, with the lines of Kaniko. */
const LOG_BYTES = 32 * 1024 * 1024;

/** Returns a new name for each attempt: a deleted Job keeps its name for a while. */
const jobNameOf = ({ ref, name, ticket }: BuildOrder) =>
  `b-${createHash('sha256').update(`${ref}/${name}/${ticket}`).digest('hex').slice(0, 24)}`;

const refOf = ({ metadata }: KubeObject) => metadata.labels?.[LABEL_BUILD_OF] ?? '';
/** A Job of an older release has no annotation, and is of the project's own site. */
const siteOfJob = (job: KubeObject) => job.metadata.annotations?.[ANNOTATION_SITE] ?? refOf(job);
const buildOf = ({ metadata }: KubeObject) => metadata.annotations?.[ANNOTATION_BUILD] ?? '';
const keyOf = ({ ref, name }: BuildName) => `${ref}/${name}`;
