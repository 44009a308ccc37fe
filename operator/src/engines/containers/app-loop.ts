/**
 * Brings the containers of one app to what is wanted, one step after another: starts the wanted version beside the one
 * that serves, takes it live once it is healthy, lets the former one finish its requests, and starts again what ended.
 * In: versions, settings, and what runs. Out: the state of the app, and the end of each rollout.
 *
 * Each step begins with a look at what is there. So a process of the platform that was killed at any point is followed
 * by one that continues.
 */
import { Refused } from '@slipway/kaniko-build-wrapper';
import { delayOf } from '@slipway/program';
import type { Logger } from 'pino';
import type { AppView, DatabaseLink } from '../../capabilities/index.js';
import { type AppRecord, type AppVersion, type AppVersions, versionIn, withoutWanted } from './app-record.js';
import { type ContainerAddress, whyUnhealthy } from './container-health.js';
import { connectionsTo, listensInstead } from './container-sockets.js';
import { shownWords, whyNotStarted } from './last-words.js';
import {
  type ContainerLimits,
  type ContainerOrder,
  digestOf,
  type ProjectContainers,
  SLOTS,
  type Slot,
} from './project-containers.js';
import { RestartPauses } from './restart-pauses.js';
import { RolloutWaiters } from './rollout-waiters.js';
import { readServing, removeServing, type ServingContainer, writeServing } from './serving-container.js';
import { CommandFailed } from './system-command.js';

export interface LoopSettings {
  variables: Readonly<Record<string, string>>;
  healthCheckPath: string | undefined;
  restart: number;
  limits: ContainerLimits;
  suspended: boolean;
  link: DatabaseLink | undefined;
  /** The address to which the data plane forwards requests now. */
  upstream: string | undefined;
}

export type AppState =
  | { kind: 'none' }
  | { kind: 'suspended' }
  | { kind: 'starting'; message: string }
  | { kind: 'running' }
  /** The container of the version that serves does not run, and starts again later. */
  | { kind: 'crashed'; message: string }
  /** The version that serves has former settings: with the present ones it is not healthy. */
  | { kind: 'outdated'; message: string };

/** The version did not become healthy. The message is for its owner. */
export class NotHealthy extends Error {}

export interface LoopDeps {
  record: AppRecord;
  open(): Promise<ProjectContainers>;
  onChange(): void;
  log: Logger;
}

const HEALTHY_WITHIN_MS = 30_000;
const HEALTH_PAUSE_MS = 100;
const LOOK_MS = 1_000;
const IDLE_MS = 60_000;
/** Milliseconds that a former container has for its requests, and at least has after requests go to the new one. */
const DRAIN_MS = 30_000;
const LEAST_DRAIN_MS = 3_000;
const STOP_SECONDS = 10;
const FAILED_STEPS = { firstMs: 1_000, maxMs: 5 * 60_000 };
const LAST_WORDS_BYTES = 2_000;

export class AppLoop {
  #settings: LoopSettings | undefined;
  #state: AppState = { kind: 'none' };
  #view: AppView = { restarts: 0 };
  #containers: ProjectContainers | undefined;
  #serving: ServingContainer | undefined;
  #healthyBy: { slot: Slot; deadline: number } | undefined;
  /** Since when the data plane forwards to the container that serves. */
  #movedAt: number | undefined;
  /** The digest of settings with which the version that serves is not healthy. */
  #refused: { digest: string; message: string } | undefined;
  readonly #pauses = new RestartPauses();
  /** How the container that serves has ended. Empty: it runs, or its end is not yet known. */
  #end = '';
  /** The digest of settings with which a container was started again after its end had no exit code. */
  #repeated: string | undefined;
  #copiedAt = Number.NEGATIVE_INFINITY;
  readonly #waiters = new RolloutWaiters();
  #wake: () => void = () => {};
  #isClosed = false;
  readonly #ended: Promise<void>;

  constructor(private readonly deps: LoopDeps) {
    this.#ended = this.#run();
  }

  get state(): AppState {
    return this.#state;
  }

  get view(): AppView {
    return this.#view;
  }

  /** Sets what the containers need beside an image. Nothing runs before the first call. */
  configure(settings: LoopSettings): void {
    const isSame = JSON.stringify(settings) === JSON.stringify(this.#settings);
    this.#settings = settings;
    if (!isSame) this.#wake();
  }

  /** Resolves once the version serves. Rejects with NotHealthy, or with the signal's reason. */
  async rollOut(build: string, signal: AbortSignal): Promise<void> {
    await this.deps.record.change((versions) => ({ ...versions, wanted: build }));
    const ended = this.#waiters.wait(build);
    const cancel = () => void this.#giveUp(build, signal.reason as Error);
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
    this.#wake();
    try {
      await ended;
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  }

  /** Ends the loop. The containers stay. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#wake();
    await this.#ended;
    this.#waiters.endAll(new Error('the platform stops'));
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (!this.#isClosed) {
      let pause = IDLE_MS;
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      try {
        pause = await this.#step();
        failures = 0;
      } catch (error) {
        failures += 1;
        this.deps.log.error({ err: error }, 'containers of an app not looked after');
        pause = delayOf(FAILED_STEPS, failures);
      }
      if (this.#isClosed) return;
      const timer = setTimeout(this.#wake, pause);
      await woken;
      clearTimeout(timer);
    }
  }

  /** Does the next thing. Returns the milliseconds until the next look. */
  async #step(): Promise<number> {
    const settings = this.#settings;
    if (!settings) return IDLE_MS;
    const versions = await this.deps.record.read();
    const version = versionIn(versions, versions.wanted) ?? versionIn(versions, versions.live);
    if (!version) return this.#show({ kind: 'none' }, { restarts: 0 }, IDLE_MS);
    this.#containers ??= await this.deps.open();
    this.#serving ??= await readServing(this.#containers.place.volatile);
    await this.#copyOutput(this.#containers);
    if (!settings.link) for (const slot of SLOTS) await this.#containers.unlink(slot);
    if (settings.suspended) return await this.#suspend(this.#containers);
    return await this.#bring(this.#containers, { settings, versions, version });
  }

  async #bring(containers: ProjectContainers, wanted: Wanted): Promise<number> {
    const order = orderOf(wanted);
    const digest = digestOf(order);
    const started = await Promise.all(SLOTS.map((slot) => containers.started(slot)));
    const serving = this.#serving?.slot;
    const matches = (slot: Slot) => started[slot]?.build === order.build && started[slot]?.digest === digest;
    const [slot] = await withAll(SLOTS.filter(matches), (each) => containers.isSupervised(each));
    if (slot !== undefined && slot === serving) {
      await this.#settle(wanted);
      await this.#keepRunning(containers, slot, wanted.settings);
      if (this.#serving === undefined) return 0;
      return await this.#drain(containers, slot, wanted.settings);
    }
    if (slot !== undefined) return await this.#await(containers, slot, wanted, digest);
    if (this.#refused?.digest === digest && serving !== undefined) {
      const { message } = this.#refused;
      await this.#keepRunning(containers, serving, wanted.settings, { kind: 'outdated', message });
      return LOOK_MS;
    }
    return await this.#begin(containers, order, wanted);
  }

  /** Copies what the containers printed, once a second. */
  async #copyOutput(containers: ProjectContainers): Promise<void> {
    if (performance.now() < this.#copiedAt + LOOK_MS) return;
    this.#copiedAt = performance.now();
    await containers
      .copyOutput()
      .catch((error) => this.deps.log.warn({ err: error }, 'output of an app not copied to its log'));
  }

  async #note(containers: ProjectContainers, text: string): Promise<void> {
    await containers.note(text).catch((error) => this.deps.log.warn({ err: error }, 'log of an app not written'));
  }

  /** Starts the wanted container in the slot that does not serve. */
  async #begin(containers: ProjectContainers, order: ContainerOrder, wanted: Wanted): Promise<number> {
    const { settings, versions } = wanted;
    const serving = this.#serving?.slot;
    if (serving === undefined && versions.live === order.build && this.#pauses.left > 0) return this.#pauses.left;
    const slot = serving === 0 ? 1 : 0;
    if (serving !== undefined && (await this.#isDraining(containers, slot, settings))) return HEALTH_PAUSE_MS;
    if (serving === undefined) this.#show({ kind: 'starting', message: 'starting the container' }, this.#view, 0);
    await containers.stop(slot, STOP_SECONDS);
    await this.#note(containers, `the container of ${order.build} starts`);
    try {
      await containers.start(slot, order);
    } catch (error) {
      if (!(error instanceof CommandFailed || error instanceof Refused)) throw error;
      return await this.#refuse(
        containers,
        slot,
        wanted,
        digestOf(order),
        `The container did not start: ${whyNotStarted(error)}.`,
      );
    }
    this.#healthyBy = { slot, deadline: performance.now() + HEALTHY_WITHIN_MS };
    return HEALTH_PAUSE_MS;
  }

  /** Waits until the new container is healthy, and takes it live. */
  async #await(containers: ProjectContainers, slot: Slot, wanted: Wanted, digest: string): Promise<number> {
    if (this.#healthyBy?.slot !== slot) this.#healthyBy = { slot, deadline: performance.now() + HEALTHY_WITHIN_MS };
    const address = containers.address(slot);
    if (!(await containers.isRunning(slot))) {
      const code = await containers.exitCode(slot);
      if (code === undefined && this.#repeated !== digest) {
        // Podman's process for the container was killed, which ends a container that prints. One more attempt is made.
        this.#repeated = digest;
        return await this.#begin(containers, orderOf(wanted), wanted);
      }
      return await this.#refuse(containers, slot, wanted, digest, `The process ended with exit code ${code ?? '?'}.`);
    }
    const why = await whyUnhealthy(address, wanted.settings.healthCheckPath);
    if (why === undefined) {
      await this.#takeLive(containers, slot, wanted.version);
      return HEALTH_PAUSE_MS;
    }
    if (performance.now() < this.#healthyBy.deadline) return HEALTH_PAUSE_MS;
    const [pid] = await containers.processes(slot);
    const instead = pid === undefined ? '' : await listensInstead(pid, address);
    const reason = `The health check failed for ${HEALTHY_WITHIN_MS / 1000} seconds: ${why}. ${instead}`.trim();
    return await this.#refuse(containers, slot, wanted, digest, reason);
  }

  async #takeLive(containers: ProjectContainers, slot: Slot, { build }: AppVersion): Promise<void> {
    const before = this.#serving;
    const isRestart = before?.build === build;
    this.#serving = await writeServing(containers.place.volatile, {
      slot,
      build,
      restarts: isRestart ? before.restarts : 0,
      ...(isRestart && before.lastExitCode !== undefined ? { lastExitCode: before.lastExitCode } : {}),
    });
    await this.#note(containers, `the container of ${build} serves`);
    this.#movedAt = undefined;
    this.#refused = undefined;
    this.#repeated = undefined;
    this.#healthyBy = undefined;
    this.#pauses.reset();
    this.#end = '';
  }

  /** Records that the wanted version is the live one, for those who wait for it too. */
  async #settle({ version: { build } }: Wanted): Promise<void> {
    await this.deps.record.change((versions) => {
      const rest = versions.wanted === build ? withoutWanted(versions) : versions;
      return rest.live === build ? rest : { ...rest, live: build };
    });
    this.#waiters.end(build);
  }

  async #refuse(
    containers: ProjectContainers,
    slot: Slot,
    { version: { build }, versions }: Wanted,
    digest: string,
    reason: string,
  ): Promise<number> {
    const words = shownWords(await containers.lastWords(slot, LAST_WORDS_BYTES));
    const message = words === '' ? reason : `${reason} Its last output: ${words}`;
    await containers.stop(slot, STOP_SECONDS);
    await containers.remove(slot);
    await this.#note(containers, `the container of ${build} is removed: ${reason}`);
    this.#healthyBy = undefined;
    this.#waiters.end(build, new NotHealthy(message));
    if (build !== versions.live) {
      await this.deps.record.change((now) => (now.wanted === build ? withoutWanted(now) : now));
      return 0;
    }
    if (this.#serving !== undefined) {
      this.#refused = { digest, message };
      return 0;
    }
    // The version served before, such as before a restart of the machine: another attempt may succeed.
    return this.#show({ kind: 'crashed', message }, this.#view, this.#pauses.failed());
  }

  /** Starts the container that serves again if it has ended. */
  async #keepRunning(
    containers: ProjectContainers,
    slot: Slot,
    { limits }: LoopSettings,
    state: AppState = { kind: 'running' },
  ): Promise<void> {
    if (await containers.isRunning(slot)) {
      const memoryBytes = inMegabytes(await containers.memoryBytes(slot));
      this.#show(state, await this.#viewOf(containers, memoryBytes), 0);
      return;
    }
    if (this.#end === '') await this.#recordEnd(containers, slot);
    this.#show({ kind: 'crashed', message: this.#end }, await this.#viewOf(containers), 0);
    if (this.#pauses.left > 0) return;
    await this.#startAgain(containers, slot, limits);
  }

  async #startAgain(containers: ProjectContainers, slot: Slot, limits: ContainerLimits): Promise<void> {
    this.#pauses.started();
    this.#end = '';
    const serving = this.#serving as ServingContainer;
    const { volatile } = containers.place;
    try {
      await containers.startAgain(slot, limits);
      this.#serving = await writeServing(volatile, { ...serving, restarts: serving.restarts + 1 });
    } catch (error) {
      this.deps.log.warn({ err: error }, 'container of an app replaced');
      await containers.remove(slot);
      await removeServing(volatile);
      this.#serving = undefined;
    }
  }

  async #recordEnd(containers: ProjectContainers, slot: Slot): Promise<void> {
    const lastExitCode = await containers.exitCode(slot);
    const words = shownWords(await containers.lastWords(slot, LAST_WORDS_BYTES));
    const pause = this.#pauses.ended();
    const again = pause === 0 ? 'now' : `in ${Math.ceil(pause / 1000)} seconds`;
    const message = `the process ended with exit code ${lastExitCode ?? '?'}, and starts again ${again}`;
    await this.#copyOutput(containers);
    await this.#note(containers, message);
    this.#end = words === '' ? message : `${message}; its last output: ${words}`;
    this.#serving = await writeServing(containers.place.volatile, {
      ...(this.#serving as ServingContainer),
      ...(lastExitCode === undefined ? {} : { lastExitCode }),
    });
  }

  /** Ends the former container once it has finished its requests. Returns the milliseconds until the next look. */
  async #drain(containers: ProjectContainers, serving: Slot, settings: LoopSettings): Promise<number> {
    const former = serving === 0 ? 1 : 0;
    if ((await containers.started(former)) === undefined) return LOOK_MS;
    if (await this.#isDraining(containers, former, settings)) return HEALTH_PAUSE_MS;
    await containers.stop(former, STOP_SECONDS);
    await containers.remove(former);
    return LOOK_MS;
  }

  /** True while requests may still go to the former container. */
  async #isDraining(containers: ProjectContainers, former: Slot, { upstream }: LoopSettings): Promise<boolean> {
    const serving = this.#serving?.slot;
    if (serving === undefined || (await containers.started(former)) === undefined) return false;
    const [pid] = await containers.processes(former);
    if (pid === undefined) return false;
    if (upstream !== inWords(containers.address(serving))) return true;
    this.#movedAt ??= performance.now();
    const since = performance.now() - this.#movedAt;
    if (since >= DRAIN_MS) return false;
    return since < LEAST_DRAIN_MS || ((await connectionsTo(pid, containers.address(former))) ?? 0) > 0;
  }

  async #suspend(containers: ProjectContainers): Promise<number> {
    for (const slot of SLOTS) {
      await containers.stop(slot, STOP_SECONDS);
      await containers.remove(slot);
    }
    await removeServing(containers.place.volatile);
    this.#serving = undefined;
    return this.#show({ kind: 'suspended' }, { restarts: 0 }, IDLE_MS);
  }

  async #viewOf(containers: ProjectContainers, memoryBytes?: number): Promise<AppView> {
    const { slot, restarts, lastExitCode } = this.#serving as ServingContainer;
    const started = await containers.started(slot);
    return {
      upstream: inWords(containers.address(slot)),
      ...(started ? { image: `sha256:${started.image}`, startedAt: started.startedAt } : {}),
      restarts,
      ...(lastExitCode === undefined ? {} : { lastExitCode }),
      ...(memoryBytes === undefined ? {} : { memoryBytes }),
    };
  }

  /** Gives up a rollout that was cancelled. */
  async #giveUp(build: string, reason: Error): Promise<void> {
    await this.deps.record.change((now) => (now.wanted === build && now.live !== build ? withoutWanted(now) : now));
    this.#waiters.end(build, reason);
    this.#wake();
  }

  #show(state: AppState, view: AppView, pause: number): number {
    const isSame = textOf(state, view) === textOf(this.#state, this.#view);
    this.#state = state;
    this.#view = view;
    if (!isSame) this.deps.onChange();
    return pause;
  }
}

interface Wanted {
  settings: LoopSettings;
  versions: AppVersions;
  version: AppVersion;
}

const orderOf = ({ settings, version }: Wanted): ContainerOrder => ({
  build: version.build,
  image: version.image,
  variables: settings.variables,
  limits: settings.limits,
  restart: settings.restart,
  linkedHost: settings.link?.host,
});

/** Returns the slots for which the check resolves with true. */
async function withAll(slots: readonly Slot[], check: (slot: Slot) => Promise<boolean>): Promise<Slot[]> {
  const results = await Promise.all(slots.map(check));
  return slots.filter((_, index) => results[index]);
}

/** Returns a text that differs for another state. The memory alone is no change. */
const textOf = (state: AppState, { memoryBytes: _, ...view }: AppView): string => JSON.stringify([state, view]);

const inWords = ({ host, port }: ContainerAddress): string => `${host}:${port}`;
const inMegabytes = (bytes: number): number => Math.ceil(bytes / 1e6) * 1e6;
