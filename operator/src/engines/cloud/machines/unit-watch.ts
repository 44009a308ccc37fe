/**
 * Watches the units of one machine, and restarts those whose restart is requested. In: the machine's SSH client while
 * there is one, and the numbers of the requests. Out: the members of the status. It starts nothing by itself: systemd
 * and the machine's loop do.
 *
 * The machine records the number of each restart. A request is fulfilled when the two numbers are equal, so an operator
 * that was killed restarts a unit twice at most, and never forgets a request.
 */
import { MACHINE_UNITS, type RestartableUnit, systemdUnitOf } from '@slipway/crds';
import type { Logger } from 'pino';
import type { EngineProject, MachineView } from '../../../capabilities/index.js';
import { type CommandRunner, readUnits, restartUnit, type UnitState } from './units.js';

export interface UnitWatchDeps {
  /** Undefined: there is no connection now. */
  session(): CommandRunner | undefined;
  /** The reason why there is no connection, if it is known. */
  problem(): string | undefined;
  onChange(): void;
  log: Logger;
  /** Milliseconds. Tests have shorter ones. */
  times?: Partial<typeof TIMES>;
}

/** The members of `status.server` about units. */
type UnitsView = Pick<MachineView, 'units' | 'unitsObservedAt' | 'restarts'>;
type WatchedProject = Pick<EngineProject, 'ref' | 'suspended' | 'machine'>;

const TIMES = {
  /** Between two looks. */
  look: 20_000,
  /** Between two looks for a connection. */
  connection: 2_000,
  /** After this time without a connection, a requested restart has failed. It is done later all the same. */
  patience: 30_000,
  /** After this time without a successful look, the states are unknown. */
  fresh: 90_000,
  /** The time of the last look is reported in steps of this length. */
  observed: 60_000,
};
const MEMORY_STEP = 10_000_000;
const MOST_SHOWN = 500;

export class UnitWatch {
  readonly #times: typeof TIMES;
  #project: WatchedProject;
  #view: UnitsView = {};
  #seenAt = performance.now();
  #waitsSince: number | undefined;
  #wake: () => void = () => undefined;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(
    project: WatchedProject,
    private readonly deps: UnitWatchDeps,
  ) {
    this.#project = project;
    this.#times = { ...TIMES, ...deps.times };
    this.#ended = this.#run();
  }

  /** Empty before the first look. */
  get view(): UnitsView {
    return this.#view;
  }

  want(project: WatchedProject): void {
    const isSame = JSON.stringify(project.machine?.restarts) === JSON.stringify(this.#project.machine?.restarts);
    this.#project = project;
    if (!isSame) this.#wake();
  }

  /** Ends the work. A restart in progress ends on the machine. */
  async close(): Promise<void> {
    this.#stop.abort(new Error('the watch of the units ends'));
    this.#wake();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      const machine = this.#project.suspended ? undefined : this.deps.session();
      try {
        if (machine) await this.#look(machine, signal);
        else this.#withoutConnection();
      } catch (error) {
        if (signal.aborted) return;
        const why = (error as Error).message;
        this.deps.log.warn({ ref: this.#project.ref, why }, 'units not read');
        this.#failed(why);
      }
      const timer = setTimeout(this.#wake, machine ? this.#times.look : this.#times.connection);
      await woken;
      clearTimeout(timer);
    }
  }

  async #look(machine: CommandRunner, signal: AbortSignal): Promise<void> {
    let seen = await readUnits(machine, signal);
    this.#show(seen);
    for (const [unit, number] of this.#pending()) {
      if (!seen.units[unit]) continue;
      await restartUnit(machine, { unit, number }, signal);
      this.deps.log.info({ ref: this.#project.ref, unit: systemdUnitOf(unit) }, 'unit restarted');
      seen = await readUnits(machine, signal);
      this.#show(seen);
    }
  }

  /** Returns the requests without an outcome. */
  #pending(): [RestartableUnit, number][] {
    const requests = Object.entries(this.#project.machine?.restarts ?? {}) as [RestartableUnit, number][];
    return requests.filter(([unit, number]) => (this.#view.restarts?.[unit]?.number ?? 0) !== number);
  }

  #withoutConnection(): void {
    if (this.#project.suspended) {
      this.#waitsSince = undefined;
      this.#publish({ ...this.#view, units: everyUnit({ status: 'stopped' }) });
      return;
    }
    const now = performance.now();
    this.#waitsSince ??= this.#pending().length > 0 ? now : undefined;
    if (this.#waitsSince !== undefined && now - this.#waitsSince >= this.#times.patience) {
      this.#failed(this.deps.problem() ?? 'The operator has no connection to the machine.');
    } else this.#expire();
  }

  /** Reports requested restarts as failed. The next look, which finds no records of them, tries them again. */
  #failed(why: string): void {
    const failure = { at: new Date().toISOString(), error: why.slice(0, MOST_SHOWN) };
    const failed = Object.fromEntries(this.#pending().map(([unit, number]) => [unit, { number, ...failure }]));
    this.#publish({ ...this.#view, restarts: { ...this.#view.restarts, ...failed } });
    this.#expire();
  }

  #expire(): void {
    if (!this.#view.units || performance.now() - this.#seenAt < this.#times.fresh) return;
    this.#publish({ ...this.#view, units: everyUnit({ status: 'unknown' }) });
  }

  #show({ units, restarts }: Awaited<ReturnType<typeof readUnits>>): void {
    this.#seenAt = performance.now();
    this.#waitsSince = undefined;
    const before = this.#view.units ?? {};
    const shown = Object.fromEntries(
      Object.entries(units).map(([name, unit]) => [name, withSteps(unit, before[name]?.memoryBytes)]),
    );
    const now = new Date();
    const { unitsObservedAt } = this.#view;
    const isRecent = unitsObservedAt && now.getTime() - Date.parse(unitsObservedAt) < this.#times.observed;
    const isSame = JSON.stringify(shown) === JSON.stringify(before);
    const observed = isSame && isRecent ? unitsObservedAt : now.toISOString();
    this.#publish({ units: shown, unitsObservedAt: observed, restarts });
  }

  /** A new time alone is no change: the next reconcile writes it. */
  #publish(view: UnitsView): void {
    const textOf = ({ units, restarts = {} }: UnitsView) => JSON.stringify([units, restarts]);
    const isSame = textOf(view) === textOf(this.#view);
    this.#view = view;
    if (!isSame) this.deps.onChange();
  }
}

/** Keeps the memory that was shown before until it has changed by a step. */
function withSteps({ memoryBytes, ...unit }: UnitState, shown: number | undefined): UnitState {
  if (memoryBytes === undefined) return unit;
  const isNear = shown !== undefined && Math.abs(memoryBytes - shown) < MEMORY_STEP;
  return { ...unit, memoryBytes: isNear ? shown : memoryBytes };
}

const everyUnit = (state: UnitState) => Object.fromEntries(MACHINE_UNITS.map((unit) => [unit, state]));
