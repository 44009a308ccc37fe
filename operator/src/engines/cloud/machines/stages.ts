/**
 * The stages of a machine, from nothing to running services. Each has a condition. In: the work of a stage. Out: its
 * outcome, which stays until the stage runs again, and the time that it took.
 */
import type { EngineOutcome, EnginePart } from '../../../capabilities/index.js';
import { ProviderError } from '../provider-error.js';
import { SshError } from '../ssh/ssh-error.js';

export const STAGES = ['reserve', 'create', 'boot', 'connect', 'install', 'configure', 'start'] as const;
export type Stage = (typeof STAGES)[number];

interface StageForm {
  condition: string;
  /** Words for the owner while the stage runs. */
  doing: string;
  timeoutMs: number;
}

const MINUTE = 60_000;
const FORMS: Readonly<Record<Stage, StageForm>> = {
  reserve: { condition: 'MachineReserved', doing: 'choosing a machine', timeoutMs: 3 * MINUTE },
  create: { condition: 'MachineCreated', doing: 'creating the machine', timeoutMs: 6 * MINUTE },
  boot: { condition: 'MachineBooted', doing: 'waiting for the machine to boot', timeoutMs: 3 * MINUTE },
  connect: { condition: 'MachineReachable', doing: 'connecting to the machine', timeoutMs: 3 * MINUTE },
  install: { condition: 'SoftwareInstalled', doing: 'installing the software', timeoutMs: 12 * MINUTE },
  configure: { condition: 'MachineConfigured', doing: 'configuring the machine', timeoutMs: 12 * MINUTE },
  start: { condition: 'UnitsRunning', doing: 'starting the services', timeoutMs: 4 * MINUTE },
};

/** The condition of work for which the machine is off or replaced, such as a snapshot. */
const MAINTENANCE = 'MachineMaintained';
const LOOK_AGAIN_MS = 10_000;
/** The work begins anew only on request. */
const LOOK_SELDOM_MS = 10 * MINUTE;
const ready = { state: 'ready', value: undefined } satisfies EngineOutcome;

/** An error of a stage that is not one of the provider or of SSH. The message is for the project's owner. */
export class StageProblem extends Error {
  constructor(
    readonly reason: string,
    message: string,
    readonly retryable: boolean,
  ) {
    super(message);
  }
}

/** The stage that failed on the last machine, for the project's owner. JSON in the machine's record. */
export interface Failure {
  stage: Stage;
  reason: string;
  message: string;
}

export interface RunOptions<P> {
  /** Work of the operator itself before the stage. The timeout does not include it. */
  before?: (() => Promise<P>) | undefined;
  /** Default: the timeout of the stage. */
  timeoutMs?: number | undefined;
  /** True while a failure leads to another attempt, so that no error of the machine is final. */
  isTry?: boolean;
}

export class MachineStages {
  readonly #outcomes = new Map<Stage, EngineOutcome>();
  readonly #ms = new Map<Stage, number>();
  #restored: readonly string[] = [];
  #maintenance: EngineOutcome | undefined;
  #failure: Extract<EngineOutcome, { state: 'failed' }> | undefined;
  /** True if the stages make a machine. False if they look at one that was there. */
  isNew = false;

  /** The name of the snapshot from which the stages make a machine. */
  restoring: string | undefined;

  constructor(private readonly onChange: () => void) {}

  /**
   * Runs the stage. Its outcome is in progress only until it was ready once: a look at a finished stage is not
   * reported. Rejects with the error of the work, or with the reason of `stop`.
   */
  async run<T, P = undefined>(
    stage: Stage,
    stop: AbortSignal,
    work: (signal: AbortSignal, before: P) => Promise<T>,
    options: RunOptions<P> = {},
  ): Promise<T> {
    const { doing } = FORMS[stage];
    const { before, timeoutMs = FORMS[stage].timeoutMs, isTry = false } = options;
    const begun = performance.now();
    const wasReady = this.isReady(stage);
    if (!this.#outcomes.has(stage)) this.#set(stage, progressing(doing));
    let timeout: AbortSignal | undefined;
    try {
      const prepared = (await before?.()) as P;
      timeout = AbortSignal.timeout(timeoutMs);
      const value = await work(AbortSignal.any([stop, timeout]), prepared);
      if (!this.#ms.has(stage)) this.#ms.set(stage, performance.now() - begun);
      if (!wasReady) this.#set(stage, ready);
      return value;
    } catch (error) {
      stop.throwIfAborted();
      const problem = timeout?.aborted && !(error instanceof StageProblem) ? lateProblem(timeoutMs) : error;
      const mayPass = (isTry && isOfMachine(problem)) || (describe(problem).retryable && !this.#ms.has(stage));
      this.#set(stage, outcomeOf(problem, doing, mayPass));
      throw problem;
    }
  }

  /** Shows the problem at a stage that has run. */
  fail(stage: Stage, problem: StageProblem): void {
    this.#set(stage, outcomeOf(problem, FORMS[stage].doing, false));
  }

  /** Shows the failure until `reset`. The machine was deleted. */
  giveUp({ stage, reason, message }: Failure): void {
    this.reset();
    const from = STAGES.indexOf('create');
    for (const earlier of STAGES.slice(from, STAGES.indexOf(stage))) this.#outcomes.set(earlier, DELETED);
    this.#failure = { state: 'failed', reason, message, retry: false };
    this.#set(stage, this.#failure);
  }

  /** Shows work for which the machine is off, in place of the stages, until `maintained`. */
  maintain(message: string): void {
    this.#maintenance = { state: 'progressing', reason: 'Maintenance', message, lookAgainMs: LOOK_AGAIN_MS };
    this.onChange();
  }

  /** Ends what `maintain` showed. `problem`: the work is still to be done, and the machine serves all the same. */
  maintained(problem?: { doing: string; error: unknown }): void {
    const before = this.#maintenance;
    if (!before && !problem) return;
    this.#maintenance = problem ? outcomeOf(problem.error, problem.doing, false) : ready;
    if (JSON.stringify(before) !== JSON.stringify(this.#maintenance)) this.onChange();
  }

  /** True while `maintain` shows work. */
  get isMaintained(): boolean {
    return this.#maintenance?.state === 'progressing';
  }

  isReady(stage: Stage): boolean {
    return this.#outcomes.get(stage)?.state === 'ready';
  }

  /** Forgets all stages, because another machine takes the place of this one. */
  reset(): void {
    this.#outcomes.clear();
    this.#ms.clear();
    this.#failure = undefined;
    this.onChange();
  }

  /** Reports repairs with the next look at the stages. */
  repaired(restored: readonly string[]): void {
    if (restored.length === 0) return;
    this.#restored = restored;
    this.onChange();
  }

  /**
   * Returns the outcome of these stages, and a part for each that has begun. After the last attempt failed, the outcome
   * is that failure, and the parts are those of all stages.
   */
  progressOf(wanted: readonly Stage[]): { outcome: EngineOutcome; parts: EnginePart[] } {
    const stages = this.#failure ? STAGES : wanted;
    const parts = stages.flatMap((stage): EnginePart[] => {
      const outcome = this.#outcomes.get(stage);
      return outcome ? [{ condition: FORMS[stage].condition, outcome: this.#withRepairs(stage, outcome) }] : [];
    });
    if (this.#maintenance && wanted.includes('reserve')) {
      parts.push({ condition: MAINTENANCE, outcome: this.#maintenance, advisory: true });
    }
    if (this.#failure) return { outcome: this.#failure, parts };
    if (this.#maintenance?.state === 'progressing') return { outcome: this.#maintenance, parts };
    const unfinished = parts.find(({ outcome, advisory }) => !advisory && outcome.state !== 'ready')?.outcome;
    if (unfinished) return { outcome: this.#ofRestore(unfinished), parts };
    const next = stages[parts.filter(({ advisory }) => !advisory).length];
    return { outcome: next === undefined ? ready : this.#ofRestore(progressing(FORMS[next].doing)), parts };
  }

  /** Returns the message of the first of these stages that is not ready. */
  problemOf(stages: readonly Stage[]): string | undefined {
    const { outcome } = this.progressOf(stages);
    return outcome.state === 'ready' ? undefined : outcome.message;
  }

  /** Returns the times of finished stages: `create 1.2 s, boot 14.0 s`. Empty for a machine that was there before. */
  get durations(): string {
    if (!this.isNew) return '';
    return STAGES.flatMap((stage) => {
      const ms = this.#ms.get(stage);
      return ms === undefined ? [] : `${stage} ${(ms / 1000).toFixed(1)} s`;
    }).join(', ');
  }

  #ofRestore(outcome: EngineOutcome): EngineOutcome {
    if (this.restoring === undefined || outcome.state !== 'progressing') return outcome;
    const message = `restoring the snapshot ${this.restoring}: ${outcome.message}`;
    return { reason: 'Maintenance', ...outcome, message };
  }

  /** Repairs are reported once. */
  #withRepairs(stage: Stage, outcome: EngineOutcome): EngineOutcome {
    if (stage !== 'configure' || outcome.state !== 'ready' || this.#restored.length === 0) return outcome;
    const restored = this.#restored;
    this.#restored = [];
    return { ...outcome, restored };
  }

  #set(stage: Stage, outcome: EngineOutcome): void {
    this.#outcomes.set(stage, outcome);
    this.onChange();
  }
}

const progressing = (message: string): EngineOutcome => ({ state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS });

/** Shown at the stages that a deleted machine had passed. */
const DELETED = {
  state: 'progressing',
  reason: 'MachineDeleted',
  message: 'the machine was deleted, because a later stage failed',
  lookAgainMs: LOOK_SELDOM_MS,
} as const satisfies EngineOutcome;

const lateProblem = (timeoutMs: number) =>
  new StageProblem('MachineTimeout', `it did not end within ${durationText(timeoutMs)}`, true);

const durationText = (ms: number): string => (ms % MINUTE === 0 ? `${ms / MINUTE} min` : `${(ms / 1000).toFixed(0)} s`);

/** Returns the failure that a stage has on a machine, for a message that also names the remedy. */
export function failureOf(stage: Stage, error: unknown): Failure {
  const { reason, message } = describe(error);
  return { stage, reason, message: `${FORMS[stage].doing}: ${message}` };
}

/**
 * True for a problem that another machine may not have. Errors of the provider and of the operator are none, and a
 * machine whose host key or keys of root were changed is not ours to delete.
 */
export function isOfMachine(error: unknown): boolean {
  if (error instanceof SshError) return error.kind !== 'host-key-changed' && error.kind !== 'unauthorized';
  return error instanceof StageProblem;
}

/** `mayPass`: shown as progress, not as a failure. */
function outcomeOf(error: unknown, doing: string, mayPass: boolean): EngineOutcome {
  const { reason, message } = describe(error);
  if (mayPass) return { ...progressing(`${doing}: ${message}`), reason } as EngineOutcome;
  return { state: 'failed', reason, message: `${doing}: ${message}`, retry: false };
}

function describe(error: unknown): { reason: string; message: string; retryable: boolean } {
  if (error instanceof StageProblem) return error;
  if (error instanceof ProviderError) {
    return { reason: `Provider${camelCase(error.kind)}`, message: error.message, retryable: error.retryable };
  }
  if (error instanceof SshError) {
    return { reason: `Ssh${camelCase(error.kind)}`, message: error.message, retryable: error.retryable };
  }
  return { reason: 'MachineError', message: (error as Error).message, retryable: true };
}

const camelCase = (kind: string) => kind.replaceAll(/(?:^|-)(\w)/g, (_, letter: string) => letter.toUpperCase());
