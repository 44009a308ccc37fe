/**
 * How new default images spread over projects: pure. In: how each project that runs them stands, as last seen. Out: who
 * gets them now, and what stops the others. Nothing is remembered between two plans: whoever makes the next one sees
 * what came of this one.
 */
export interface Standing {
  ref: string;
  /** Whether it has the new images; they may not run yet. */
  isCurrent: boolean;
  state: 'well' | 'underway' | 'failed';
  /** The reason of a failure. */
  why?: string;
}

export interface Halt {
  ref: string;
  why: string;
}

export interface RolloutPlan {
  /** Those that are to get the new images now. */
  chosen: ReadonlySet<string>;
  /** All that have the old ones, the chosen too. */
  waiting: readonly string[];
  /** The project that fails with the new images: nobody gets them who is well with the old ones. */
  halt: Halt | undefined;
  counts: Record<'current' | 'underway' | 'waiting' | 'failed', number>;
}

export function planRollout(standings: readonly Standing[], batch: number): RolloutPlan {
  const current = standings.filter(({ isCurrent }) => isCurrent);
  const waiting = standings.filter(({ isCurrent }) => !isCurrent).sort(byTurn);
  const failed = current.filter(({ state }) => state === 'failed').sort(byName);
  const underway = current.filter(({ state }) => state === 'underway').length;
  // Who fails with the old images too has nothing to lose, and its failure says nothing of the new ones.
  const first = waiting.some(({ state }) => state !== 'failed') ? failed[0] : undefined;
  const free = first ? 0 : Math.max(0, batch - underway);
  return {
    chosen: new Set(waiting.slice(0, free).map(({ ref }) => ref)),
    waiting: waiting.map(({ ref }) => ref),
    halt: first && { ref: first.ref, why: first.why ?? 'its pods do not become ready' },
    counts: {
      current: current.length - underway - failed.length,
      underway,
      waiting: waiting.length,
      failed: failed.length,
    },
  };
}

const byName = (a: Standing, b: Standing) => (a.ref < b.ref ? -1 : 1);
/** A project may fail by its own doing: it must not be who the new images are tried with. */
const TURNS = { well: 0, underway: 1, failed: 2 };
const byTurn = (a: Standing, b: Standing) => TURNS[a.state] - TURNS[b.state] || byName(a, b);
