/**
 * Runs the stages of a reconcile. The steps of a stage are independent and run concurrently. A stage runs only when the
 * stage before it is ready. In: steps by name. Out: their values, and a part of the status for each.
 */
import type { KubeError } from '@slipway/kubernetes';
import type { EngineOutcome, EnginePart } from '../../capabilities/index.js';
import { isTransient, type UnexpectedFailure, unexpectedOutcome } from '../../runtime/failures.js';
import { refusalOf, refusedOutcome } from '../../runtime/refusal.js';
import type { StepOutcome } from './context.js';
import type { PartResult } from './status.js';

/**
 * The outcome of a step, and parts with conditions of their own. An undefined outcome of an advisory step: nothing to
 * report.
 */
export type StepResult<T> = EngineOutcome<T> | { outcome: EngineOutcome<T> | undefined; parts: readonly EnginePart[] };

export interface Step<T = undefined> {
  /** The condition that reports the step. It is Ready for a step without a condition of its own. */
  condition: string;
  /**
   * True if the project's readiness does not depend on the step and its parts. The step may have nothing to report.
   */
  advisory?: true;
  run(): Promise<StepResult<T> | undefined>;
}

/** Steps by the names that messages, logs and metrics use. */
type Steps<Values> = { [Name in keyof Values]: Step<Values[Name]> };

export class Stages {
  readonly parts: PartResult[] = [];
  /** Steps that threw an unexpected error. Each has a part too. */
  readonly unexpected: UnexpectedFailure[] = [];
  readonly #transient: unknown[] = [];

  /** Resolves with the values of the steps. Undefined: not all are ready, so the next stage has to wait. */
  async run<Values extends object>(steps: Steps<Values>): Promise<Values | undefined> {
    const named = Object.entries(steps) as [string, Step<unknown>][];
    const results = await Promise.allSettled(named.map(([, step]) => step.run()));
    const values: Record<string, unknown> = {};
    let isReady = true;
    for (const [index, result] of results.entries()) {
      const [name, step] = named[index] as [string, Step<unknown>];
      const outcome = this.#outcomeOf(name, step, result);
      if (outcome?.state === 'ready') values[name] = outcome.value;
      else isReady = false;
    }
    return isReady ? (values as Values) : undefined;
  }

  /** Throws the transient error of a step, unless another step failed unexpectedly. */
  throwTransient(): void {
    if (this.#transient.length > 0 && this.unexpected.length === 0) throw this.#transient[0];
  }

  #outcomeOf(
    name: string,
    { condition, advisory }: Step<unknown>,
    result: PromiseSettledResult<StepResult<unknown> | undefined>,
  ): EngineOutcome<unknown> | undefined {
    if (result.status === 'rejected' && isTransient(result.reason)) {
      this.#transient.push(result.reason);
      return undefined;
    }
    const returned = result.status === 'fulfilled' ? result.value : this.#failureOf(name, result.reason);
    const { outcome, parts } =
      returned && 'parts' in returned ? returned : { outcome: returned, parts: [] as readonly EnginePart[] };
    if (outcome || !advisory)
      this.parts.push({ condition, outcome: withoutValue(outcome), advisory: advisory === true });
    this.parts.push(...(advisory ? parts.map((part) => ({ ...part, advisory })) : parts));
    return outcome;
  }

  /**
   * Returns the outcome of an error for the status: a refusal by the API server, or an unexpected error, which is
   * recorded.
   */
  #failureOf(step: string, error: unknown): StepOutcome {
    if (refusalOf(error)) {
      return refusedOutcome(error, `the API server refuses a request for ${(error as KubeError).resource}`);
    }
    this.unexpected.push({ step, error });
    return unexpectedOutcome(step);
  }
}

/** Drops the value: the status has only the progress of a part. */
const withoutValue = (outcome: EngineOutcome<unknown> | undefined): StepOutcome | undefined =>
  outcome?.state === 'ready' ? { ...outcome, value: undefined } : outcome;
