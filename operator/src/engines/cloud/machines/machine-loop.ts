/**
 * Brings one machine to what is wanted, stage by stage, and keeps it there. In: a project and its document. Out: the
 * state of each stage, and the ways to the machine's Postgres and functions. Each pass begins with a look at what is
 * there, so that a process that was killed at any point is followed by one that continues.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { delayOf } from '@slipway/program';
import type { Logger } from 'pino';
import type { EngineProject, MachineView } from '../../../capabilities/index.js';
import type { Machine } from '../provider.js';
import { isKind } from '../provider-error.js';
import { applyState, type StateReport } from '../software/apply-state.js';
import { installSoftware } from '../software/install-software.js';
import { FIREWALL_UNIT } from '../software/state/firewall.js';
import { hashOf, type MachineState } from '../software/state/state.js';
import type { SshClient } from '../ssh/ssh-client.js';
import { SshError } from '../ssh/ssh-error.js';
import { openSession } from './first-session.js';
import type { MachineAccess } from './machine-access.js';
import type { MachineOrders, Ordered } from './machine-orders.js';
import { changeRecord, type MachineRecord, newBootKeys, readRecord } from './record.js';
import { MachineStages, StageProblem } from './stages.js';

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
}

/** Milliseconds between looks at a machine that runs. */
const LOOK_MS = 180_000;
const FAILED_PASSES = { firstMs: 1_000, maxMs: 60_000 };
const BOOT_POLL = { firstMs: 500, maxMs: 3_000 };
const CONNECT_POLL_MS = 500;
const SHUTDOWN_MS = 60_000;
/** The words of the machine's report. */
const FILTER_REPAIRED = 'the packet filter, whose rules were changed';

export class MachineLoop {
  readonly stages: MachineStages;
  #project: EngineProject;
  #wanted: { make: StateMaker; digest: string } | undefined;
  #configured: string | undefined;
  #record: MachineRecord | undefined;
  #ordered: Ordered | undefined;
  #session: { machineId: string; host: string; ssh: SshClient; platform: string } | undefined;
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
    this.stages = new MachineStages(deps.onChange);
    this.#ended = this.#run();
  }

  /** Undefined: nothing was created yet. */
  get view(): MachineView | undefined {
    const { view } = this.#ordered ?? {};
    return view && { ...view, certificate: this.#record?.certificate as string };
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
    const isSame = project.suspended === this.#project.suspended && project.plan === this.#project.plan;
    this.#project = project;
    if (!isSame) this.#wake();
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
    await this.#disconnect();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let failures = 0;
    while (!signal.aborted) {
      let pause = LOOK_MS;
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      try {
        await this.#pass(signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        failures += 1;
        this.deps.log.warn({ ref: this.#project.ref, why: (error as Error).message }, 'machine not as wanted yet');
        pause = Math.max(delayOf(FAILED_PASSES, failures), retryAfterOf(error));
      }
      const timer = setTimeout(this.#wake, pause);
      await woken;
      clearTimeout(timer);
    }
  }

  async #pass(stop: AbortSignal): Promise<void> {
    const { orders } = this.deps;
    this.#record ??= await readRecord(orders.client, this.#project, orders.installation);
    const machine = await this.#machine(stop);
    if (this.#project.suspended) return await this.#powerOff(machine, stop);
    const host = await this.#booted(machine, stop);
    const { ssh, platform } = await this.#connected(machine.id, host, stop);
    await this.stages.run('install', stop, async (signal) => installSoftware(ssh, await orders.pack(), signal));
    const wanted = this.#wanted;
    if (!wanted) return;
    await this.#configure(ssh, platform, wanted.make, stop);
    this.#configured = wanted.digest;
    this.deps.onChange();
  }

  async #change(change: Parameters<typeof changeRecord>[3]): Promise<MachineRecord> {
    this.#record = await changeRecord(this.deps.orders.client, this.#project, this.#record as MachineRecord, change);
    return this.#record;
  }

  /** Finds the machine, or creates it. */
  async #machine(stop: AbortSignal): Promise<Machine> {
    const { orders } = this.deps;
    const { machineId } = this.#record as MachineRecord;
    const known = machineId === undefined ? undefined : await orders.observe(machineId, stop);
    if (known) {
      this.#ordered = await orders.viewOf(this.#project, known, stop);
      for (const stage of ['reserve', 'create'] as const) await this.stages.run(stage, stop, async () => undefined);
      return known;
    }
    if (machineId !== undefined) await this.#lost(machineId, stop);
    const reserved = await this.stages.run('reserve', stop, (signal) =>
      orders.reserve(this.#project, this.#record as MachineRecord, signal),
    );
    this.stages.isNew = true;
    return await this.stages.run('create', stop, async (signal) => {
      const machine = await orders.create(reserved, signal);
      await this.#change({ machineId: machine.id });
      this.#ordered = await orders.viewOf(this.#project, machine, signal);
      return machine;
    });
  }

  /** A machine that was deleted at the provider is replaced only if it never had the project's data. */
  async #lost(machineId: string, stop: AbortSignal): Promise<void> {
    await this.#disconnect();
    if (this.#record?.servedFrom === machineId) {
      await this.stages.run('create', stop, () => {
        const message =
          `machine ${machineId} was deleted at the provider, and the project's data with it. ` +
          'Restore a snapshot at the provider, or delete the project.';
        throw new StageProblem('MachineLost', message, false);
      });
    }
    this.stages.reset();
    await this.#change({ machineId: undefined, hostKey: undefined, pinnedFor: undefined, ...newBootKeys() });
  }

  #booted(machine: Machine, stop: AbortSignal): Promise<string> {
    const { provider } = this.deps.orders;
    return this.stages.run('boot', stop, async (signal) => {
      if (machine.state === 'off') await provider.powerOn(machine.id, signal);
      for (let attempt = 1, seen: Machine | undefined = machine; ; attempt += 1) {
        if (!seen) throw new StageProblem('MachineLost', 'the machine was deleted at the provider', true);
        if (seen.state === 'running' && seen.address !== undefined) {
          this.#ordered = await this.deps.orders.viewOf(this.#project, seen, signal);
          return seen.address;
        }
        await sleep(delayOf(BOOT_POLL, attempt), undefined, { signal });
        seen = await provider.observe(machine.id, signal);
      }
    });
  }

  #connected(machineId: string, host: string, stop: AbortSignal) {
    return this.stages.run('connect', stop, async (signal) => {
      const known = this.#session;
      if (known?.machineId === machineId && known.host === host) {
        await known.ssh.hostKey(signal);
        return known;
      }
      await this.#disconnect();
      const record = this.#record as MachineRecord;
      const session = { host, machineId, record, change: (change: object) => this.#change(change) };
      for (;;) {
        try {
          const ssh = await openSession({ ...session, record: this.#record as MachineRecord }, signal);
          const { stdout } = await ssh.run(['sh', '-c', 'echo "$SSH_CONNECTION"'], {}, signal);
          this.#session = { machineId, host, ssh, platform: stdout.split(' ')[0] ?? '' };
          return this.#session;
        } catch (error) {
          signal.throwIfAborted();
          if (!mayPass(error, this.stages.isReady('connect'))) throw error;
          await sleep(CONNECT_POLL_MS, undefined, { signal });
        }
      }
    });
  }

  async #configure(ssh: SshClient, platform: string, maker: StateMaker, stop: AbortSignal): Promise<void> {
    const record = this.#record as MachineRecord;
    const report = await this.stages.run('configure', stop, async (signal) => {
      const state = await maker({ ordered: this.#ordered as Ordered, record, platform });
      const { machineId } = record;
      if (record.servedFrom !== machineId) await this.#change({ servedFrom: machineId });
      const applied = await applyState(ssh, state, signal);
      if (this.#applied === hashOf(state)) this.stages.repaired(repairsOf(applied));
      this.#applied = applied.hash;
      return applied;
    });
    this.#hasFirewall = !report.down.includes(FIREWALL_UNIT);
    const down = report.down.filter((unit) => unit !== FIREWALL_UNIT);
    await this.stages.run('start', stop, async () => {
      if (down.length === 0) return;
      throw new StageProblem('UnitsDown', `these units do not run: ${down.join(', ')}`, true);
    });
    this.#access ??= await this.deps.openAccess(ssh, record);
  }

  /** Shuts the system down, so that Postgres writes its checkpoint, before the power is cut. */
  async #powerOff(machine: Machine, stop: AbortSignal): Promise<void> {
    const { provider } = this.deps.orders;
    await this.stages.run('boot', stop, async (signal) => {
      const ssh = this.#session?.ssh;
      if (machine.state === 'running' && ssh) {
        await ssh.run(['systemctl', 'poweroff'], {}, signal).catch(() => undefined);
        const until = performance.now() + SHUTDOWN_MS;
        while (performance.now() < until && (await provider.observe(machine.id, signal))?.state === 'running') {
          await sleep(1_000, undefined, { signal });
        }
      }
      await this.#disconnect();
      if (machine.state !== 'off') await provider.powerOff(machine.id, signal);
    });
  }

  async #disconnect(): Promise<void> {
    await this.#access?.close();
    this.#access = undefined;
    await this.#session?.ssh.close();
    this.#session = undefined;
  }
}

/**
 * True for an error that ends with the boot. sshd may run before cloud-init has written the keys, so another host key
 * or a refused login is final only on a machine that was reachable once.
 */
function mayPass(error: unknown, wasReachable: boolean): boolean {
  if (!(error instanceof SshError)) return false;
  if (error.retryable) return true;
  return !wasReachable && (error.kind === 'host-key-changed' || error.kind === 'unauthorized');
}

/** Returns the repairs. What is down after a repair is a problem of its own. */
const repairsOf = ({ repaired, down }: StateReport) =>
  repaired.filter((text) => {
    const isFilter = text === FILTER_REPAIRED && down.includes(FIREWALL_UNIT);
    return !isFilter && !down.some((unit) => text.startsWith(`unit ${unit},`));
  });

const retryAfterOf = (error: unknown) => (isKind(error, 'unavailable') ? (error.retryAfterMs ?? 0) : 0);
