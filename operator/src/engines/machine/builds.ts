/**
 * Builds of one machine: each in sealed processes of its own, with its output as a deployment in a folder. In: orders.
 * Out: the progress of each build. No process of a build outlives this process. Files that remain on the disk are
 * deleted at the next start.
 */
import { createHash } from 'node:crypto';
import { statfsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { totalmem } from 'node:os';
import path from 'node:path';
import { diskReserveOf } from '@slipway/installation';
import {
  BuildFailed,
  type Credentials,
  type Detected,
  fetchCredentials,
  missingWall,
  runBuild,
  Unneeded,
} from '@slipway/kaniko-build-wrapper';
import { connectionsOf, type Reach } from '@slipway/program';
import { outboundTo } from '@slipway/program/outbound.js';
import { BuildLogs, type BuildLogWriter, OutputRefused, Sites } from '@slipway/sites';
import type { Logger } from 'pino';
import type { BuildEnd, BuildName, BuildOrder, BuildState, Builds, KeptBuilds } from '../../capabilities/index.js';
import { keptOutputs, outputLimitsOf } from '../outputs.js';
import { BuildCaches, removed } from './build-caches.js';
import { type CommitReport, CommitStatuses } from './commit-statuses.js';

/** Minimum bytes of memory of each build: Node starts with 1 GiB, but not with half of it. */
const LEAST_MEMORY = 2 ** 30;

export interface MachineBuildsOptions {
  /** The folder of work, caches and logs. */
  folder: string;
  sitesFolder: string;
  /** URL of the API. */
  apiUrl: string;
  /** Maximum number of concurrent builds. A machine with little memory runs fewer. */
  atOnce: number;
  /** Networks that builds may connect to. */
  reach: Reach;
  /** A file (PEM) of all certificate authorities that builds trust. Undefined: the system's. */
  certificates: string | undefined;
  /** Returns the address of the site or preview of this name. */
  siteUrl(site: string): string;
  /** Base URLs of the APIs for commit statuses, by git host. Default: GitHub's. */
  reportedTo?: Readonly<Record<string, string>>;
  log: Logger;
}

interface Running {
  /** Reports the build to its git host. */
  report(report: CommitReport): void;
  /** The site that the output belongs to. */
  site: string;
  state: BuildState;
  stop: AbortController;
  ended: Promise<void>;
}

export class MachineBuilds implements Builds {
  readonly atOnce: number;
  /** Bytes of memory of each build. All builds together get half of the machine's. */
  readonly #memoryBytes: number;
  readonly checksPushes = true;
  readonly #options: MachineBuildsOptions;
  readonly #sites: Sites;
  readonly #logs: BuildLogs;
  readonly #caches: BuildCaches;
  readonly #statuses: CommitStatuses;
  readonly #running = new Map<string, Running>();
  #lacking: string | undefined;
  #notify: (ref: string) => void = () => {};
  #ready: Promise<void> = Promise.resolve();

  constructor(options: MachineBuildsOptions) {
    this.#options = options;
    this.atOnce = Math.max(1, Math.min(options.atOnce, Math.floor(totalmem() / 2 / LEAST_MEMORY)));
    this.#memoryBytes = totalmem() / 2 / this.atOnce;
    this.#sites = new Sites(options.sitesFolder);
    this.#logs = new BuildLogs(path.join(options.folder, 'logs'));
    this.#caches = new BuildCaches(path.join(options.folder, 'cache'), options.log);
    const { reportedTo: apis, log } = options;
    const outbound = outboundTo(connectionsOf(options.reach));
    this.#statuses = new CommitStatuses({ outbound, log, ...(apis ? { apis } : {}) });
  }

  get lacking(): string | undefined {
    return this.#lacking ?? this.#fullDisk();
  }

  /** Builds wait while the disk has less free space than what is reserved for the platform. */
  #fullDisk(): string | undefined {
    const { bavail, blocks, bsize } = statfsSync(path.dirname(this.#options.folder));
    const reserve = diskReserveOf(blocks * bsize);
    if (bavail * bsize >= reserve) return undefined;
    return `the machine's disk has less than ${Math.ceil(reserve / 2 ** 20)} MiB free`;
  }

  /**
   * Checks the isolation that the machine has, and deletes files of builds that were interrupted. Builds wait for it.
   */
  begin(): void {
    const wall = missingWall();
    this.#lacking = wall === undefined ? undefined : `this machine can not isolate a build: it does not have ${wall}`;
    const onError = (error: Error) => this.#options.log.error({ why: error.message }, 'former files not deleted');
    this.#ready = removed(this.#work());
    this.#ready.catch(onError);
    this.#caches.begin().catch(onError);
  }

  start(order: BuildOrder): void {
    const key = keyOf(order);
    if (this.#running.has(key)) return;
    const stop = new AbortController();
    const state = { steps: [], hasCredentials: false };
    const running: Running = { site: order.site, report: () => {}, state, stop, ended: Promise.resolve() };
    this.#running.set(key, running);
    running.ended = this.#run(order, running).then((end) => {
      this.#caches.release(builderOf(order));
      this.#reportEnd(order, running, end);
      this.#change(order, { end });
    });
  }

  started(ref: string): string[] {
    return [...this.#running.keys()].filter((key) => key.startsWith(`${ref}/`)).map((key) => key.slice(ref.length + 1));
  }

  stateOf(build: BuildName): BuildState | undefined {
    return this.#running.get(keyOf(build))?.state;
  }

  async stop(build: BuildName): Promise<void> {
    const running = this.#running.get(keyOf(build));
    running?.stop.abort(new Error('stopped'));
    await running?.ended;
  }

  forget(build: BuildName): void {
    this.#running.delete(keyOf(build));
  }

  async goLive({ ref, name }: BuildName): Promise<boolean> {
    if (!(await this.#sites.has(ref, name))) return false;
    await this.#sites.goLive(ref, name);
    return true;
  }

  liveBuild(site: string): Promise<string | undefined> {
    return this.#sites.liveId(site);
  }

  async keepOnly(ref: string, { builds, previews, deployments }: KeptBuilds): Promise<void> {
    const started = this.started(ref);
    await this.#logs.keepOnly(ref, new Set([...builds, ...started]));
    // Only a running build may write to its site.
    const written = started.map((name) => this.#running.get(keyOf({ ref, name }))?.site ?? ref);
    await this.#sites.keepOnly(ref, keptOutputs(previews, written, deployments));
  }

  async diskBytes(ref: string): Promise<number> {
    const caches = buildersOf(ref).reduce((sum, builder) => sum + this.#caches.bytes(builder), 0);
    return caches + (await this.#sites.bytes(ref)) + (await this.#logs.bytes(ref));
  }

  async clearCache(ref: string): Promise<boolean> {
    if (this.started(ref).length > 0) return false;
    for (const builder of buildersOf(ref)) await this.#caches.clear(builder);
    return true;
  }

  async remove(ref: string): Promise<void> {
    for (const name of this.started(ref)) {
      await this.stop({ ref, name });
      this.forget({ ref, name });
    }
    await this.#logs.remove(ref);
    await this.#sites.remove(ref);
    for (const builder of buildersOf(ref)) await this.#caches.remove(builder);
  }

  onChange(listener: (ref: string) => void): void {
    this.#notify = listener;
  }

  /** Resolves when no process of a build is left. */
  async close(): Promise<void> {
    const all = [...this.#running.values()];
    for (const { stop } of all) stop.abort(new Error('the platform stops'));
    await Promise.all(all.map(({ ended }) => ended));
    await this.#caches.close();
    await this.#statuses.close();
  }

  #reporterOf({ ref, site, repoUrl }: BuildOrder, token: string | null, log: BuildLogWriter): Running['report'] {
    const context = site === ref ? `slipway/${ref}` : `slipway/${ref}/preview`;
    const onRefusal = (why: string) => log.append('Building', `slipway: ${why}\n`);
    return this.#statuses.of({ repoUrl, token, context, onRefusal });
  }

  #reportEnd({ site }: BuildOrder, { report, state: { commit } }: Running, end: BuildEnd): void {
    if (commit === undefined || end.kind === 'unneeded') return;
    if (end.kind === 'deployed') {
      return report({ commit, state: 'success', description: 'deployed', url: this.#options.siteUrl(site) });
    }
    const [state, description] =
      end.kind === 'stopped' ? (['error', 'the build was stopped'] as const) : (['failure', end.message] as const);
    report({ commit, state, description });
  }

  async #run(order: BuildOrder, running: Running): Promise<BuildEnd> {
    const { signal } = running.stop;
    const { ref, name, site } = order;
    // A short name, as the path of a socket in the folder may have at most 107 bytes.
    const work = path.join(this.#work(), createHash('sha256').update(keyOf(order)).digest('hex').slice(0, 16));
    await this.#ready.catch(() => undefined);
    const log = await this.#logs.write(ref, name, order.limits.logBytes);
    try {
      await mkdir(work, { recursive: true, mode: 0o711 });
      const cache = await this.#caches.open(builderOf(order));
      // An interrupted attempt may have left the output of an older commit.
      await this.#sites.discard(site, name);
      const credentials = await fetchCredentials(this.#options.apiUrl, order, signal);
      running.report = this.#reporterOf(order, credentials.token, log);
      this.#change(order, { hasCredentials: true });
      const { output, detected } = await this.#build(order, { work, cache, credentials, log, signal });
      this.#change(order, { steps: ended(this.stateOf(order)?.steps, 0), detected: shown(detected) });
      const { warnings, bytes } = await this.#sites.publish(site, name, output, outputLimitsOf(order), signal);
      for (const warning of warnings) log.append('Building', `slipway: ${warning}\n`);
      await this.#sites.goLive(site, name);
      return { kind: 'deployed', at: new Date(), bytes };
    } catch (error) {
      if (error instanceof BuildFailed) {
        this.#change(order, { steps: ended(this.stateOf(order)?.steps, error.exitCode ?? undefined) });
      }
      return this.#failed(order, error, { log, signal });
    } finally {
      await log
        .end()
        .catch((error: Error) => this.#options.log.warn({ ref, name, why: error.message }, 'build log not stored'));
      await removed(work).catch((error: Error) =>
        this.#options.log.warn({ ref, name, why: error.message }, 'build files not deleted'),
      );
    }
  }

  #build(
    order: BuildOrder,
    {
      work,
      cache,
      credentials,
      log,
      signal,
    }: { work: string; cache: string; credentials: Credentials; log: BuildLogWriter; signal: AbortSignal },
  ) {
    const { name, site, repoUrl, revision, branch, unless, submodules, settings, env, limits } = order;
    const builder = builderOf(order);
    const { reach, certificates } = this.#options;
    const memoryBytes = Math.min(limits.memoryBytes, this.#memoryBytes);
    return runBuild(
      {
        ref: builder,
        build: name,
        source: { repoUrl, revision, submodules, unless },
        credentials,
        settings: { ...settings, framework: undefined },
        deployment: { BRANCH: branch, SITE_URL: this.#options.siteUrl(site) },
        env,
        folders: { work, cache },
        limits: { ...limits, memoryBytes, processMemoryBytes: memoryBytes },
        reach,
        certificates,
      },
      {
        step: (step) => {
          const before = ended(this.stateOf(order)?.steps, 0);
          this.#change(order, { steps: [...before, { name: step, startedAt: new Date() }] });
        },
        commit: (commit) => {
          log.append('Cloning', `commit ${commit}\n`);
          this.#change(order, { commit });
          this.#running.get(keyOf(order))?.report({ commit, state: 'pending', description: 'building' });
        },
        log: (step, text) => log.append(step, text),
      },
      signal,
    );
  }

  #failed(
    { ref, name }: BuildOrder,
    error: unknown,
    { log, signal }: { log: BuildLogWriter; signal: AbortSignal },
  ): BuildEnd {
    const at = new Date();
    if (signal.aborted) return { kind: 'stopped', at };
    if (error instanceof Unneeded) return { kind: 'unneeded', at };
    if (error instanceof BuildFailed) {
      return { kind: 'failed', at, reason: `${error.step}Failed`, message: error.message, retry: false };
    }
    if (error instanceof OutputRefused) {
      log.append('Building', `\nslipway: ${error.message}\n`);
      return { kind: 'failed', at, reason: 'OutputRefused', message: error.message, retry: false };
    }
    this.#options.log.error({ ref, build: name, err: error }, 'build not run');
    return { kind: 'failed', at, reason: 'BuilderFailed', message: 'the machine could not run the build', retry: true };
  }

  #change(build: BuildName, change: Partial<BuildState>): void {
    const running = this.#running.get(keyOf(build));
    if (!running) return;
    running.state = { ...running.state, ...change };
    this.#notify(build.ref);
  }

  #work(): string {
    return path.join(this.#options.folder, 'work');
  }
}

/**
 * Returns the name of the build's account and cache. Builds of previews have others than builds of the site: they run
 * at the same time, and more people can push to their branches.
 */
const builderOf = ({ ref, site }: BuildOrder) => (site === ref ? ref : previewBuilderOf(ref));
/** Name of the builder of previews. It is unambiguous, because no ref has a dot. */
const previewBuilderOf = (ref: string) => `${ref}.previews`;
const buildersOf = (ref: string) => [ref, previewBuilderOf(ref)];

/** Returns the steps with the end of the last one set to now. */
function ended(steps: BuildState['steps'] = [], exitCode: number | undefined): BuildState['steps'] {
  return steps.map((step, index) =>
    index < steps.length - 1 || step.finishedAt
      ? step
      : { ...step, finishedAt: new Date(), ...(exitCode === undefined ? {} : { exitCode }) },
  );
}

/** Drops values that were not detected, as a status does. */
const shown = (detected: Detected): NonNullable<BuildState['detected']> =>
  Object.fromEntries(Object.entries(detected).filter(([, value]) => value !== undefined));

const keyOf = ({ ref, name }: BuildName) => `${ref}/${name}`;
