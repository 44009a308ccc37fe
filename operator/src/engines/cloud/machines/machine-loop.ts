/**
 * Brings one machine to what is wanted, stage by stage, and keeps it there. In: a project and its document. Out: the
 * state of each stage, and the ways to the machine's Postgres and functions. Each pass begins with a look at what is
 * there, so that a process that was killed at any point is followed by one that continues. A machine without data that
 * fails is replaced once. One with data is never deleted: it is powered on, rebooted or reported.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { delayOf, parseJson } from '@slipway/program';
import type { Logger } from 'pino';
import type { EngineProject, MachineAnswers, MachineView } from '../../../capabilities/index.js';
import type { Machine } from '../provider.js';
import { isKind, ProviderError } from '../provider-error.js';
import { applyState, type StateReport } from '../software/apply-state.js';
import { installSoftware } from '../software/install-software.js';
import { FIREWALL_UNIT } from '../software/state/firewall.js';
import { hashOf, type MachineState } from '../software/state/state.js';
import type { SshClient } from '../ssh/ssh-client.js';
import { SshError } from '../ssh/ssh-error.js';
import type { MachineAccess } from './machine-access.js';
import { MachineMaintenance, type MaintenanceProblem } from './machine-maintenance.js';
import type { MachineOrders, Ordered } from './machine-orders.js';
import type { MaintainedMachine } from './machine-resize.js';
import { afterDeletion, afterRestore } from './machine-restore.js';
import { MachineSession } from './machine-session.js';
import {
  finalFailure,
  isLastTry,
  TRY_LIMITS,
  type TriedStage,
  TryClock,
  TryFailed,
  type TryLimits,
} from './machine-tries.js';
import { changeRecord, type MachineRecord, type RecordChange, readRecord, restoringOf } from './record.js';
import { respondToSilence } from './silent-machine.js';
import {
  type Failure,
  failureOf,
  isOfMachine,
  MachineStages,
  type RunOptions,
  type Stage,
  StageProblem,
} from './stages.js';
import { UnitWatch } from './unit-watch.js';

/** Makes the state of the machine from its document. */
export type StateMaker = (place: {
  ordered: Ordered;
  record: MachineRecord;
  platform: string;
}) => Promise<MachineState>;

export interface MachineLoopDeps {
  orders: MachineOrders;
  /** Opens the ways to the machine's Postgres and functions. */
  openAccess(ssh: SshClient, record: MachineRecord): Promise<MachineAccess>;
  onChange(): void;
  log: Logger;
  /** Shorter ones for tests. */
  limits?: Partial<LoopLimits> | undefined;
}

/** In milliseconds. */
export interface LoopLimits extends TryLimits {
  /** Between looks at a machine that runs. */
  look: number;
  /**
   * A machine with data that does not respond over SSH for so long is rebooted. A boot takes less, and so does a
   * restart of sshd or of the network.
   */
  silence: number;
  /** The first pause after an error that needs a person, such as a new token. Later ones are at most five times it. */
  refused: number;
}

export const LOOP_LIMITS: LoopLimits = { ...TRY_LIMITS, look: 180_000, silence: 180_000, refused: 60_000 };

const FAILED_PASSES = { firstMs: 1_000, maxMs: 60_000 };
/** A machine without data has only minutes. */
const FAILED_TRIES = { firstMs: 1_000, maxMs: 10_000 };
const BOOT_POLL = { firstMs: 500, maxMs: 3_000 };
/** An attempt with less time left has failed. */
const LEAST_MS = 1_000;
/** The words of the machine's report. */
const FILTER_REPAIRED = 'the packet filter, whose rules were changed';

export class MachineLoop {
  readonly stages: MachineStages;
  readonly #units: UnitWatch;
  #project: EngineProject;
  #wanted: { make: StateMaker; digest: string } | undefined;
  #configured: string | undefined;
  #record: MachineRecord | undefined;
  /** Null: there is no machine. Undefined: not known yet. */
  #ordered: Ordered | null | undefined;
  readonly #limits: LoopLimits;
  #clock: TryClock;
  /** The stage of the last error that the machine caused. */
  #failedStage: TriedStage | undefined;
  readonly #session = new MachineSession(async () => {
    await this.#access?.close();
    this.#access = undefined;
  });
  readonly #maintenance: MachineMaintenance;
  #access: MachineAccess | undefined;
  /** The hash of the state that was applied last, and what the machine said of it. */
  #applied: string | undefined;
  #hasFirewall = true;
  #wake: () => void = () => undefined;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(
    project: EngineProject,
    private readonly deps: MachineLoopDeps,
  ) {
    this.#project = project;
    this.#limits = { ...LOOP_LIMITS, ...deps.limits };
    this.#clock = new TryClock(this.#limits);
    this.stages = new MachineStages(deps.onChange);
    this.#units = new UnitWatch(project, {
      ...deps,
      session: () => this.#session.ssh,
      problem: () => this.stages.problemOf(['create', 'boot', 'connect']),
    });
    const { refused: pauseMs } = this.#limits;
    this.#maintenance = new MachineMaintenance({ ...deps, stages: this.stages, pauseMs });
    this.#ended = this.#run();
  }

  /** Null: there is no machine. Undefined: not known yet. */
  get view(): MachineView | null | undefined {
    if (!this.#ordered) return this.#ordered;
    return { ...this.#ordered.view, certificate: this.#record?.certificate as string, ...this.#units.view };
  }

  /** Undefined: not known yet. */
  get answers(): MachineAnswers | undefined {
    return this.#record && this.#maintenance.answers(this.#project, this.#record);
  }

  /** Undefined: the machine's Postgres was not started yet. */
  get access(): MachineAccess | undefined {
    return this.#access;
  }

  /** False: the packet filter of the machine could not be loaded. The provider's firewall is in place all the same. */
  get hasFirewall(): boolean {
    return this.#hasFirewall;
  }

  want(project: EngineProject): void {
    const wishes = ({ suspended, plan, machine: { restarts: _, ...requests } = {} }: EngineProject) =>
      JSON.stringify([suspended, plan, requests]);
    const isSame = wishes(project) === wishes(this.#project);
    this.#project = project;
    if (!isSame) this.#wake();
    this.#units.want(project);
  }

  /** `digest`: of the content from which the state is made. */
  configure(make: StateMaker, digest: string): void {
    const isSame = this.#wanted?.digest === digest;
    this.#wanted = { make, digest };
    if (!isSame) this.#wake();
  }

  /** True if the machine has the state of that content. */
  isConfigured(digest: string): boolean {
    return this.#configured === digest;
  }

  /** Ends the work. The machine stays. */
  async close(): Promise<void> {
    this.#stop.abort(new Error('the work at the machine ends'));
    this.#wake();
    await this.#ended;
    await this.#units.close();
    await this.#session.close();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let failures = 0;
    while (!signal.aborted) {
      let pause = this.#limits.look;
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      try {
        await this.#pass(signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        const isDecided = error instanceof TryFailed;
        failures = isDecided ? 0 : failures + 1;
        this.deps.log.warn({ ref: this.#project.ref, why: (error as Error).message }, 'machine not as wanted yet');
        pause = isDecided ? 0 : this.#pauseAfter(error, failures);
      }
      const timer = setTimeout(this.#wake, pause);
      await woken;
      clearTimeout(timer);
    }
  }

  #pauseAfter(error: unknown, failures: number): number {
    const stage = this.#failedStage;
    if (stage && this.#isTry && isOfMachine(error)) {
      const pause = Math.min(delayOf(FAILED_TRIES, failures), this.#clock.leftFor(stage));
      this.#clock.spend(stage, pause);
      return pause;
    }
    const isRefused = error instanceof ProviderError ? !error.retryable : isFinal(error);
    const { refused } = this.#limits;
    const backoff = isRefused ? { firstMs: refused, maxMs: 5 * refused, jitter: 0.2 } : FAILED_PASSES;
    return Math.max(delayOf(backoff, failures), retryAfterOf(error));
  }

  async #pass(stop: AbortSignal): Promise<void> {
    const { orders } = this.deps;
    this.#record ??= await readRecord(orders.client, this.#project, orders.installation);
    this.stages.restoring = restoringOf(this.#record)?.snapshot;
    await this.#beginProvision();
    let problem: MaintenanceProblem | undefined;
    try {
      if (this.#record.failing) await this.#delete(stop);
      const seen = await this.#observe(stop);
      problem = await this.#maintenance.run(this.#maintained, seen, stop);
      if (this.#record.failing) await this.#delete(stop);
      if (isLastTry(failedOf(this.#record))) return this.#showFailure();
      await this.#serve(await this.#machine(await this.#after(seen, stop), stop), stop);
    } finally {
      if (!stop.aborted) this.stages.maintained(problem);
    }
  }

  /** Brings the machine to its state, unless it is to be off. */
  async #serve(machine: Machine, stop: AbortSignal): Promise<void> {
    if (this.#project.suspended) return await this.#powerOff(machine, stop);
    const host = await this.#booted(machine, stop);
    const { ssh, platform } = await this.#connected(machine.id, host, stop);
    const before = () => this.deps.orders.pack();
    await this.#stage('install', stop, (signal, pack) => installSoftware(ssh, pack, signal), { before });
    const wanted = this.#wanted;
    if (!wanted) return;
    await this.#configure(ssh, platform, wanted.make, stop);
    this.#configured = wanted.digest;
    this.deps.onChange();
  }

  /** Returns the machine as it is after the maintenance. */
  async #after(seen: Machine | undefined, stop: AbortSignal): Promise<Machine | undefined> {
    if (!seen || this.#record?.machineId !== seen.id) return undefined;
    if (!this.stages.isMaintained) return seen;
    this.deps.orders.forget();
    return await this.deps.orders.observe(seen.id, stop);
  }

  get #maintained(): MaintainedMachine {
    const [project, record] = [() => this.#project, () => this.#record as MachineRecord];
    return {
      get project() {
        return project();
      },
      get record() {
        return record();
      },
      change: (change) => this.#change(change),
      powerOff: (machine, signal) => this.#powerOff(machine, signal),
    };
  }

  async #change(change: RecordChange): Promise<MachineRecord> {
    this.#record = await changeRecord(this.deps.orders.client, this.#project, this.#record as MachineRecord, change);
    this.stages.restoring = restoringOf(this.#record)?.snapshot;
    return this.#record;
  }

  /** True for a machine without data: it is replaced if it fails. */
  get #isTry(): boolean {
    const { machineId, servedFrom } = this.#record as MachineRecord;
    return machineId !== undefined && servedFrom !== machineId;
  }

  /** Runs a stage of the machine. Rejects with TryFailed if a machine without data has used up its time. */
  async #stage<T, P = undefined>(
    stage: TriedStage,
    stop: AbortSignal,
    work: (signal: AbortSignal, before: P) => Promise<T>,
    { before, timeoutMs }: RunOptions<P> = {},
  ): Promise<T> {
    const isTry = this.#isTry;
    const wasReady = this.stages.isReady(stage);
    const left = this.#clock.leftFor(stage);
    let begun = performance.now();
    const timed = (signal: AbortSignal, prepared: P) => {
      begun = performance.now();
      return work(signal, prepared);
    };
    try {
      const value = await this.stages.run(stage, stop, timed, {
        before,
        timeoutMs: isTry ? Math.max(LEAST_MS, Math.ceil(left)) : timeoutMs,
        isTry,
      });
      // A look at a stage that was ready is no attempt.
      if (!wasReady) this.#clock.spend(stage, performance.now() - begun);
      return value;
    } catch (error) {
      if (!isTry || !isOfMachine(error)) throw error;
      this.#failedStage = stage;
      this.#clock.spend(stage, performance.now() - begun);
      if (this.#clock.leftFor(stage) < LEAST_MS) await this.#giveUpMachine(failureOf(stage, error));
      throw error;
    }
  }

  /** A request to provision gives the project new attempts. */
  async #beginProvision(): Promise<void> {
    const { provision: recorded = '0', failed } = this.#record as MachineRecord;
    const provision = String(this.#project.machine?.provision ?? 0);
    if (provision === recorded) return;
    await this.#change({ provision, failed: undefined, failure: undefined });
    this.#clock = new TryClock(this.#limits);
    if (failed !== undefined) this.stages.reset();
  }

  /** Decides that the machine is deleted. From then on it gets no data, also after a restart of the operator. */
  async #giveUpMachine(failure: Failure): Promise<never> {
    const { orders } = this.deps;
    this.#record = await readRecord(orders.client, this.#project, orders.installation);
    if (!this.#isTry) throw new Error('the machine has served, so it is not replaced');
    await this.#change({ failing: 'yes', failure: JSON.stringify(failure) });
    throw new TryFailed(failure);
  }

  /** Deletes the machine that failed, or gives way to a snapshot, before another one is created. */
  async #delete(stop: AbortSignal): Promise<void> {
    await this.#session.close();
    const { restoring } = this.stages;
    if (restoring) this.stages.maintain(`restoring the snapshot ${restoring}: deleting the former machine`);
    // Another project must not get the place of a machine whose data is in a snapshot alone.
    const place = { keepsPlace: restoring !== undefined };
    await this.stages.run('create', stop, (signal) => this.deps.orders.delete(this.#project, signal, place));
    await this.#change(afterDeletion(this.#record as MachineRecord));
    this.deps.orders.forget();
    this.#ordered = null;
    this.#clock = new TryClock(this.#limits);
    this.#applied = undefined;
    this.#configured = undefined;
    this.stages.maintained();
    this.stages.reset();
  }

  #showFailure(): void {
    this.#ordered = null;
    const failure = parseJson((this.#record as MachineRecord).failure as string) as Failure;
    this.stages.giveUp(finalFailure(failure, restoringOf(this.#record as MachineRecord)?.snapshot));
  }

  /** Creates the machine, unless it is known. */
  async #machine(known: Machine | undefined, stop: AbortSignal): Promise<Machine> {
    const { orders } = this.deps;
    const { machineId } = this.#record as MachineRecord;
    if (known) {
      this.#ordered = await this.#viewOf(known, stop);
      for (const stage of ['reserve', 'create'] as const) await this.stages.run(stage, stop, async () => undefined);
      return known;
    }
    if (machineId !== undefined) await this.#lost(machineId, stop);
    const reserved = await this.stages.run('reserve', stop, (signal) =>
      orders.reserve(this.#project, this.#record as MachineRecord, signal),
    );
    this.stages.isNew = true;
    // The pack is ready when the machine is. Its errors are those of the stage that needs it.
    orders.pack().catch(() => undefined);
    return await this.stages.run('create', stop, async (signal) => {
      if (!reserved.record.ordered) reserved.record = await this.#change({ ordered: 'yes' });
      const machine = await orders.create(reserved, signal).catch(async (error: unknown) => {
        // Nothing was ordered, so another snapshot may be restored.
        if (isDefinite(error) && this.stages.restoring) await this.#change({ ordered: undefined });
        throw error;
      });
      await this.#change({ machineId: machine.id, size: reserved.size });
      this.#ordered = await this.#viewOf(machine, signal);
      return machine;
    });
  }

  #viewOf(machine: Machine, signal: AbortSignal): Promise<Ordered> {
    return this.deps.orders.viewOf(this.#project, this.#record as MachineRecord, machine, signal);
  }

  /** A machine that is as wanted costs no request of its own. Undefined: there is none, or it was deleted. */
  async #observe(stop: AbortSignal): Promise<Machine | undefined> {
    const { orders } = this.deps;
    const { machineId } = this.#record as MachineRecord;
    if (machineId === undefined) return undefined;
    const isReady = (...stages: Stage[]) => stages.every((stage) => this.stages.isReady(stage));
    const { suspended } = this.#project;
    if (!(suspended ? isReady('boot') : isReady('connect', 'start'))) return orders.observe(machineId, stop);
    return orders.look(machineId, suspended ? 'off' : 'running', stop);
  }

  /** A machine that was deleted at the provider is replaced only if it never had the project's data. */
  async #lost(machineId: string, stop: AbortSignal): Promise<never> {
    await this.#session.close();
    if (this.#isTry) {
      const lost = new StageProblem('MachineLost', `machine ${machineId} was deleted at the provider`, true);
      return await this.#giveUpMachine(failureOf('create', lost));
    }
    return await this.stages.run('create', stop, () => {
      const snapshot = this.#maintenance.snapshots.newest;
      const remedy = snapshot ? `POST /projects/{id}/snapshots/${snapshot}/restore` : 'There is no snapshot';
      const message =
        `machine ${machineId} was deleted at the provider, and the project's data with it. ` +
        `${remedy}, or delete the project.`;
      throw new StageProblem('MachineLost', message, false);
    });
  }

  #booted(machine: Machine, stop: AbortSignal): Promise<string> {
    const { provider } = this.deps.orders;
    return this.#stage('boot', stop, async (signal) => {
      for (let attempt = 1, seen: Machine | undefined = machine; ; attempt += 1) {
        if (!seen) throw new StageProblem('MachineLost', 'the machine was deleted at the provider', true);
        if (seen.state === 'running' && seen.address !== undefined) {
          this.#ordered = await this.#viewOf(seen, signal);
          return seen.address;
        }
        // It may be off after its creation too, or because somebody switched it off.
        if (seen.state === 'off') await provider.powerOn(machine.id, signal);
        await sleep(delayOf(BOOT_POLL, attempt), undefined, { signal });
        seen = await provider.observe(machine.id, signal);
      }
    });
  }

  async #connected(machineId: string, host: string, stop: AbortSignal) {
    const timeoutMs = this.#limits.silence;
    try {
      const open = (signal: AbortSignal) => this.#session.open(machineId, host, this.#maintained, signal);
      return await this.#stage('connect', stop, open, { timeoutMs });
    } catch (error) {
      if (!(error instanceof StageProblem) || this.#isTry) throw error;
      const record = this.#record as MachineRecord;
      const change = (changes: RecordChange) => this.#change(changes);
      const done = await respondToSilence(
        { ...this.deps, project: this.#project, machineId, host, record, change },
        stop,
      );
      if (done !== '') this.stages.fail('connect', new StageProblem(error.reason, `${error.message} ${done}`, false));
      throw error;
    }
  }

  async #configure(ssh: SshClient, platform: string, maker: StateMaker, stop: AbortSignal): Promise<void> {
    const record = this.#record as MachineRecord;
    const { machineId } = record;
    const before = () => maker({ ordered: this.#ordered as Ordered, record, platform });
    const configure = async (signal: AbortSignal, state: MachineState) => {
      const applied = await applyState(ssh, state, signal);
      if (this.#applied === hashOf(state)) this.stages.repaired(repairsOf(applied));
      this.#applied = applied.hash;
      return applied;
    };
    const report = await this.#stage('configure', stop, configure, { before });
    this.#hasFirewall = !report.down.includes(FIREWALL_UNIT);
    const down = report.down.filter((unit) => unit !== FIREWALL_UNIT);
    await this.#stage('start', stop, async () => {
      if (down.length === 0) return;
      throw new StageProblem('UnitsDown', `these units do not run: ${down.join(', ')}`, true);
    });
    // The database is made through this access, so the machine holds no data before, or that of a snapshot.
    if (record.servedFrom !== machineId) await this.#change({ servedFrom: machineId, ...afterRestore(record) });
    this.#access ??= await this.deps.openAccess(ssh, record);
  }

  /** Shuts the system down, so that Postgres writes its checkpoint, before the power is cut. */
  async #powerOff(machine: Machine, stop: AbortSignal): Promise<void> {
    const { provider } = this.deps.orders;
    await this.stages.run('boot', stop, async (signal) => {
      await this.#session.close();
      if (machine.state !== 'off') await provider.shutDown(machine.id, signal);
    });
  }
}

const failedOf = ({ failed = '0' }: MachineRecord) => Number(failed);

/** True for an error that only a person can end. */
const isFinal = (error: unknown) =>
  (error instanceof StageProblem && !error.retryable) || (error instanceof SshError && !isOfMachine(error));

/** Returns the repairs. What is down after a repair is a problem of its own. */
const repairsOf = ({ repaired, down }: StateReport) =>
  repaired.filter((text) => {
    const isFilter = text === FILTER_REPAIRED && down.includes(FIREWALL_UNIT);
    return !isFilter && !down.some((unit) => text.startsWith(`unit ${unit},`));
  });

/** True for an error of the provider after which the request is not executed. */
const isDefinite = (error: unknown) => error instanceof ProviderError && error.kind !== 'unavailable';

const retryAfterOf = (error: unknown) => (isKind(error, 'unavailable') ? (error.retryAfterMs ?? 0) : 0);
