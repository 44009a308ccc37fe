/**
 * Projects whose requests get 503 because the projects hung this program. In: the recorded hangs of the last starts.
 * Out: for a ref, the end of its pause and the operation that hung. Created once at start, because a hang ends the
 * program.
 */
import { hashedRef } from '@slipway/installation';
import type { Hang } from '@slipway/program';

export interface Pause {
  /** End of the pause, in milliseconds since 1970. */
  until: number;
  /** Operation of the last hang. */
  operation: string;
}

/** The pause as text, for the operator. */
export const reasonOf = ({ until, operation }: Pause): string => `until ${new Date(until).toISOString()}, ${operation}`;

const PAUSE_MS = 10 * 60_000;
/** Milliseconds between two hangs of a project within which the second hang pauses the project. */
const WINDOW_MS = 60 * 60_000;

export class PausedProjects {
  readonly #pauses = new Map<string, Pause>();
  readonly #now: () => number;

  /** Creates the pauses from `hangs`, the oldest first. */
  constructor(hangs: readonly Hang[], now = Date.now) {
    this.#now = now;
    const last = new Map<string, number>();
    for (const { at, project, operation } of hangs) {
      // Ignores hangs in the future, recorded with a wrong clock, which would make the pause too long.
      if (at > now()) continue;
      if (at - (last.get(project) ?? Number.NEGATIVE_INFINITY) <= WINDOW_MS) {
        this.#pauses.set(project, { until: at + PAUSE_MS, operation });
      }
      last.set(project, at);
    }
  }

  find(ref: string): Pause | undefined {
    if (this.#pauses.size === 0) return undefined;
    const pause = this.#pauses.get(ref);
    if (pause === undefined || this.#now() < pause.until) return pause;
    this.#pauses.delete(ref);
    return undefined;
  }

  /** Returns the reason of each pause by the hash of its project's ref. */
  reasons(): Record<string, string> {
    const paused = [...this.#pauses.keys()].flatMap((ref) => {
      const pause = this.find(ref);
      return pause ? [[hashedRef(ref), reasonOf(pause)]] : [];
    });
    return Object.fromEntries(paused);
  }
}
