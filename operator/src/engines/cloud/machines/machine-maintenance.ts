/**
 * Work on a machine that its owner requested: snapshots of the disk, another size, and the decision to restore a
 * snapshot. The machine is off for the first two, and boots afterwards also if the work failed. In: the requests in the
 * Project, and the machine. Out: the answers for the status. The machine's record has the answers and the work that was
 * begun, so that an operator continues after a kill.
 */
import type { EngineProject, MachineAnswers } from '../../../capabilities/index.js';
import type { Machine } from '../provider.js';
import type { MachineOrders } from './machine-orders.js';
import { MachineResize, type MaintainedMachine, resizeAnswer } from './machine-resize.js';
import { decideRestore, restoreAnswer } from './machine-restore.js';
import { ProjectSnapshots, type SnapshotPlan } from './project-snapshots.js';
import type { MachineRecord } from './record.js';
import type { MachineStages } from './stages.js';

export interface MachineMaintenanceDeps {
  orders: MachineOrders;
  stages: MachineStages;
  onChange(): void;
  /** The first pause after a failure, in milliseconds. Later ones are at most sixty times it. */
  pauseMs: number;
}

/** Work that is still to be done, because the provider refuses it now. */
export type MaintenanceProblem = NonNullable<Parameters<MachineStages['maintained']>[0]>;

export class MachineMaintenance {
  readonly snapshots: ProjectSnapshots;
  readonly #resize: MachineResize;

  constructor(private readonly deps: MachineMaintenanceDeps) {
    const { orders, stages, pauseMs } = deps;
    const retry = { firstMs: pauseMs, maxMs: 60 * pauseMs, jitter: 0.2 };
    this.snapshots = new ProjectSnapshots(orders, retry);
    this.#resize = new MachineResize(orders, stages, retry);
  }

  /**
   * Does what is due. `machine`: undefined if there is none, so that only the list is brought up to date. Returns what
   * is still to be done because the provider refuses it now.
   */
  async run(
    of: MaintainedMachine,
    machine: Machine | undefined,
    stop: AbortSignal,
  ): Promise<MaintenanceProblem | undefined> {
    const hasData = machine !== undefined && of.record.servedFrom === machine.id;
    const problem = await this.#try('looking after the snapshots', stop, async () => {
      const plan = await this.snapshots.plan(of, hasData, stop);
      if (!plan) return;
      const due = hasData ? this.snapshots.due(plan) : [];
      if (due.length > 0) await this.#makeSnapshots(of, machine as Machine, due, stop);
      await this.#deleteSnapshots(of, plan, stop);
    });
    // A requested snapshot has the data that a restore replaces.
    const restore = () => decideRestore(this.deps.orders, this.snapshots, of, stop);
    const unrestored = await this.#try('restoring a snapshot', stop, restore);
    if (of.record.failing || !hasData || !this.#resize.isDue(of)) return unrestored ?? problem;
    const resize = () => this.#resize.run(of, machine.id, stop);
    return (await this.#try('changing the size of the machine', stop, resize)) ?? unrestored ?? problem;
  }

  /** Undefined: the snapshots are not known yet. */
  answers(project: EngineProject, record: MachineRecord): MachineAnswers | undefined {
    const snapshots = this.snapshots.view(project, record);
    if (!snapshots) return undefined;
    const [restore, resize] = [restoreAnswer(record), resizeAnswer(record)];
    return { snapshots, ...(restore && { restore }), ...(resize && { resize }) };
  }

  /** Returns the problem, if it does not end the work. */
  async #try(doing: string, stop: AbortSignal, work: () => Promise<void>): Promise<MaintenanceProblem | undefined> {
    try {
      await work();
      return undefined;
    } catch (error) {
      stop.throwIfAborted();
      return { doing, error };
    }
  }

  /** A copy of the disk of a system that runs would not be consistent. */
  async #makeSnapshots(of: MaintainedMachine, machine: Machine, names: string[], stop: AbortSignal): Promise<void> {
    try {
      for (const [index, name] of names.entries()) {
        this.snapshots.creating = name;
        this.deps.stages.maintain(`making the snapshot ${name}; the machine is off`);
        if (index === 0) await of.powerOff(machine, stop);
        await this.snapshots.create(name, machine, of, stop);
      }
    } catch (error) {
      stop.throwIfAborted();
      for (const name of names) this.snapshots.fail(name, error as Error);
      throw error;
    } finally {
      this.snapshots.creating = undefined;
    }
    await this.snapshots.read(of, stop);
    this.deps.onChange();
  }

  async #deleteSnapshots(of: MaintainedMachine, plan: SnapshotPlan, stop: AbortSignal): Promise<void> {
    if (plan.delete.length === 0) return;
    await this.snapshots.delete(plan, stop);
    await this.snapshots.read(of, stop);
    this.deps.onChange();
  }
}
