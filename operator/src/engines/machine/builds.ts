/**
 * Builds of one machine: each in sealed processes of its own. In: orders, and the outputs of each type of project. Out:
 * the progress of each build. No process of a build outlives this process. Files that remain on the disk are deleted at
 * the next start.
 */
import { createHash } from 'node:crypto';
import { statfsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { totalmem } from 'node:os';
import path from 'node:path';
import { diskReserveOf } from '@slipway/installation';
import { type BuildEvents, BuildFailed, fetchCredentials, missingWall, Unneeded } from '@slipway/kaniko-build-wrapper';
import { connectionsOf, type Reach } from '@slipway/program';
import { outboundTo } from '@slipway/program/outbound.js';
import { BuildLogs, type BuildLogWriter, refOfSite } from '@slipway/sites';
import type { Logger } from 'pino';
import type {
  BuildEnd,
  BuildName,
  BuildOrder,
  BuildState,
  Builds,
  KeptBuilds,
  Rollback,
} from '../../capabilities/index.js';
import { removed } from './build-caches.js';
import { type BuildOutputs, OutputFailed } from './build-outputs.js';
import { type CommitReport, CommitStatuses } from './commit-statuses.js';

/** Minimum bytes of memory of each build: Node starts with 1 GiB, but not with half of it. */
const LEAST_MEMORY = 2 ** 30;

export interface MachineBuildsOptions {
  /** The folder of work and logs. */
  folder: string;
  /** URL of the API. */
  apiUrl: string;
  /** Maximum number of concurrent builds. A machine with little memory runs fewer. */
  atOnce: number;
  /** Networks that reports to git hosts may connect to. */
  reach: Reach;
  /** Returns the outputs of the project's type. */
  outputsOf(ref: string): BuildOutputs;
  /** The outputs of all types. */
  allOutputs: readonly BuildOutputs[];
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
  readonly #logs: BuildLogs;
  readonly #statuses: CommitStatuses;
  readonly #running = new Map<string, Running>();
  #lacking: string | undefined;
  #notify: (ref: string) => void = () => {};
  #ready: Promise<void> = Promise.resolve();

  constructor(options: MachineBuildsOptions) {
    this.#options = options;
    this.atOnce = Math.max(1, Math.min(options.atOnce, Math.floor(totalmem() / 2 / LEAST_MEMORY)));
    this.#memoryBytes = totalmem() / 2 / this.atOnce;
    this.#logs = new BuildLogs(path.join(options.folder, 'logs'));
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
    for (const outputs of this.#options.allOutputs) outputs.begin();
  }

  start(order: BuildOrder): void {
    const key = keyOf(order);
    if (this.#running.has(key)) return;
    const stop = new AbortController();
    const state = { steps: [], hasCredentials: false };
    const running: Running = { site: order.site, report: () => {}, state, stop, ended: Promise.resolve() };
    this.#running.set(key, running);
    running.ended = this.#run(order, running).then((end) => {
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

  goLive(build: BuildName): Promise<Rollback> {
    return this.#options.outputsOf(build.ref).goLive(build);
  }

  async liveBuild(site: string): Promise<string | undefined> {
    return await this.#options.outputsOf(refOfSite(site)).liveBuild(site);
  }

  async keepOnly(ref: string, kept: KeptBuilds): Promise<void> {
    const started = this.started(ref);
    await this.#logs.keepOnly(ref, new Set([...kept.builds, ...started]));
    // Only a running build may write to its site.
    const written = started.map((name) => this.#running.get(keyOf({ ref, name }))?.site ?? ref);
    await this.#options.outputsOf(ref).keepOnly(ref, kept, written);
  }

  async diskBytes(ref: string): Promise<number> {
    return (await this.#options.outputsOf(ref).bytes(ref)) + (await this.#logs.bytes(ref));
  }

  async clearCache(ref: string): Promise<boolean> {
    if (this.started(ref).length > 0) return false;
    await this.#options.outputsOf(ref).clearCache(ref);
    return true;
  }

  async remove(ref: string): Promise<void> {
    for (const name of this.started(ref)) {
      await this.stop({ ref, name });
      this.forget({ ref, name });
    }
    await this.#logs.remove(ref);
    // The Project, and with it its type, may be gone.
    for (const outputs of this.#options.allOutputs) await outputs.remove(ref);
  }

  onChange(listener: (ref: string) => void): void {
    this.#notify = listener;
  }

  /** Reports a change of the project's outputs. */
  changed(ref: string): void {
    this.#notify(ref);
  }

  /** Resolves when no process of a build is left. */
  async close(): Promise<void> {
    const all = [...this.#running.values()];
    for (const { stop } of all) stop.abort(new Error('the platform stops'));
    await Promise.all(all.map(({ ended }) => ended));
    for (const outputs of this.#options.allOutputs) await outputs.close();
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
    const { ref, name } = order;
    // A short name, as the path of a socket in the folder may have at most 107 bytes.
    const work = path.join(this.#work(), createHash('sha256').update(keyOf(order)).digest('hex').slice(0, 16));
    await this.#ready.catch(() => undefined);
    const log = await this.#logs.write(ref, name, order.limits.logBytes);
    try {
      await mkdir(work, { recursive: true, mode: 0o711 });
      const credentials = await fetchCredentials(this.#options.apiUrl, order, signal);
      running.report = this.#reporterOf(order, credentials.token, log);
      this.#change(order, { hasCredentials: true });
      const bytes = await this.#options.outputsOf(ref).make({
        order,
        work,
        credentials,
        memoryBytes: Math.min(order.limits.memoryBytes, this.#memoryBytes),
        events: this.#eventsOf(order, log),
        built: (detected) => this.#change(order, { steps: ended(this.stateOf(order)?.steps, 0), detected }),
        line: (text) => log.append('Building', `slipway: ${text}\n`),
        signal,
      });
      return { kind: 'deployed', at: new Date(), ...(bytes === undefined ? {} : { bytes }) };
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

  #eventsOf(order: BuildOrder, log: BuildLogWriter): BuildEvents {
    return {
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
    };
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
    if (error instanceof OutputFailed) {
      log.append('Building', `\nslipway: ${error.message}\n`);
      return { kind: 'failed', at, reason: error.reason, message: error.message, retry: false };
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

/** Returns the steps with the end of the last one set to now. */
function ended(steps: BuildState['steps'] = [], exitCode: number | undefined): BuildState['steps'] {
  return steps.map((step, index) =>
    index < steps.length - 1 || step.finishedAt
      ? step
      : { ...step, finishedAt: new Date(), ...(exitCode === undefined ? {} : { exitCode }) },
  );
}

const keyOf = ({ ref, name }: BuildName) => `${ref}/${name}`;
