/**
 * Limits the time that a machine without data may need until it runs. In: the time that its stages took. Out: the time
 * that is left, and the words for the owner if the last machine failed. Only time in which the machine was worked on
 * counts: an unavailable provider or a restart of the operator is no failure of the machine.
 */
import type { Failure, Stage } from './stages.js';

/** Stages that a machine can fail. Earlier ones are those of the provider. */
export type TriedStage = Exclude<Stage, 'reserve' | 'create'>;

/** In milliseconds. */
export type TryLimits = Readonly<Record<TriedStage | 'total', number>>;

const MINUTE = 60_000;
/** With the deletion of a machine, its failure is shown within 8 minutes of its order. */
export const TRY_LIMITS: TryLimits = {
  boot: 3 * MINUTE,
  connect: 3 * MINUTE,
  install: 4 * MINUTE,
  configure: 4 * MINUTE,
  start: 2 * MINUTE,
  total: 7 * MINUTE,
};

/** Machines for one request to provision. */
const MOST_TRIES = 2;

export const isLastTry = (failed: number): boolean => failed >= MOST_TRIES;

export class TryClock {
  readonly #spent = new Map<TriedStage, number>();

  constructor(private readonly limits: TryLimits) {}

  /** Returns the milliseconds that are left for the stage. */
  leftFor(stage: TriedStage): number {
    const total = [...this.#spent.values()].reduce((sum, ms) => sum + ms, 0);
    return Math.max(0, Math.min(this.limits[stage] - (this.#spent.get(stage) ?? 0), this.limits.total - total));
  }

  spend(stage: TriedStage, ms: number): void {
    this.#spent.set(stage, (this.#spent.get(stage) ?? 0) + ms);
  }
}

/** A machine without data did not succeed within its limits. */
export class TryFailed extends Error {
  constructor(readonly failure: Failure) {
    super(failure.message);
  }
}

const REMEDIES: Readonly<Record<Stage, string>> = {
  reserve: 'Read the message',
  create: 'Find out who deletes machines at the provider',
  boot: 'Read the status page of the provider, or choose another region',
  connect: 'Allow connections from the platform to port 22 of the machines',
  install: 'Read the error',
  configure: 'Check that the machines reach the packages of Debian',
  start: 'Read the log of the operator',
};

/** Returns the failure of the last machine with its remedy. `snapshot`: the name of that from which it was made. */
export function finalFailure(failure: Failure, snapshot?: string): Failure {
  const what = `${MOST_TRIES} machines${snapshot ? ` from the snapshot ${snapshot}` : ''}`;
  const stays = snapshot ? '. The snapshot stays' : '';
  const request = snapshot ? `/projects/{id}/snapshots/${snapshot}/restore` : '/projects/{id}/reprovision';
  return {
    ...failure,
    message:
      `${failure.message.replace(/\.$/, '')}. ${what} failed in a row, and both are deleted${stays}. ` +
      `${REMEDIES[failure.stage]}, then POST ${request}`,
  };
}
