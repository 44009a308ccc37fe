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
  boot: { condition: 'MachineBooted', doing: 'waiting for the machine to boot', timeoutMs: 4 * MINUTE },
  connect: { condition: 'MachineReachable', doing: 'connecting to the machine', timeoutMs: 4 * MINUTE },
  install: { condition: 'SoftwareInstalled', doing: 'installing the software', timeoutMs: 12 * MINUTE },
  configure: { condition: 'MachineConfigured', doing: 'configuring the machine', timeoutMs: 12 * MINUTE },
  start: { condition: 'UnitsRunning', doing: 'starting the services', timeoutMs: 4 * MINUTE },
};

const LOOK_AGAIN_MS = 10_000;
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

export class MachineStages {
  readonly #outcomes = new Map<Stage, EngineOutcome>();
  readonly #ms = new Map<Stage, number>();
  #restored: readonly string[] = [];
  /** True if the stages make a machine. False if they look at one that was there. */
  isNew = false;

  constructor(private readonly onChange: () => void) {}

  /**
   * Runs the stage. Its outcome is in progress only until it was ready once: a look at a finished stage is not
   * reported. Rejects with the error of the work, or with the reason of `stop`.
   */
  async run<T>(stage: Stage, stop: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { doing, timeoutMs } = FORMS[stage];
    const begun = performance.now();
    const wasReady = this.isReady(stage);
    if (!this.#outcomes.has(stage)) this.#set(stage, progressing(doing));
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      const value = await work(AbortSignal.any([stop, timeout]));
      if (!this.#ms.has(stage)) this.#ms.set(stage, performance.now() - begun);
      if (!wasReady) this.#set(stage, ready);
      return value;
    } catch (error) {
      stop.throwIfAborted();
      const late = `${doing} did not end within ${timeoutMs / MINUTE} minutes`;
      const problem = timeout.aborted ? new StageProblem('MachineTimeout', late, true) : error;
      this.#set(stage, outcomeOf(problem, doing, this.#ms.has(stage)));
      throw problem;
    }
  }

  isReady(stage: Stage): boolean {
    return this.#outcomes.get(stage)?.state === 'ready';
  }

  /** Forgets all stages, because another machine takes the place of this one. */
  reset(): void {
    this.#outcomes.clear();
    this.#ms.clear();
    this.onChange();
  }

  /** Reports repairs with the next look at the stages. */
  repaired(restored: readonly string[]): void {
    if (restored.length === 0) return;
    this.#restored = restored;
    this.onChange();
  }

  /** Returns the outcome of these stages, and a part for each that has begun. */
  progressOf(stages: readonly Stage[]): { outcome: EngineOutcome; parts: EnginePart[] } {
    const parts = stages.flatMap((stage) => {
      const outcome = this.#outcomes.get(stage);
      return outcome ? [{ condition: FORMS[stage].condition, outcome: this.#withRepairs(stage, outcome) }] : [];
    });
    const unfinished = parts.find(({ outcome }) => outcome.state !== 'ready')?.outcome;
    if (unfinished) return { outcome: unfinished, parts };
    const next = stages[parts.length];
    return { outcome: next === undefined ? ready : progressing(FORMS[next].doing), parts };
  }

  /** Returns the times of finished stages: `create 1.2 s, boot 14.0 s`. Empty for a machine that was there before. */
  get durations(): string {
    if (!this.isNew) return '';
    return STAGES.flatMap((stage) => {
      const ms = this.#ms.get(stage);
      return ms === undefined ? [] : `${stage} ${(ms / 1000).toFixed(1)} s`;
    }).join(', ');
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

/** A problem that may pass by itself is a failure only after the stage was ready once. */
function outcomeOf(error: unknown, doing: string, wasReady: boolean): EngineOutcome {
  const { reason, message, retryable } = describe(error);
  if (retryable && !wasReady) return { ...progressing(`${doing}: ${message}`), reason } as EngineOutcome;
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
