/**
 * Plans the rollout of new default images over projects. Pure. In: the state of each project that runs them, from the
 * caches. Out: the projects that get the images now, and the failure that stops the rollout to others. No state is
 * stored between two plans: the next plan starts from the state to which this plan led.
 */
export interface Standing {
  ref: string;
  /** Whether the project's Deployments have the new images. They may not run yet. */
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
  /** The projects that get the new images now. */
  chosen: ReadonlySet<string>;
  /** All projects with the old images, also the chosen ones. */
  waiting: readonly string[];
  /** The project that fails with the new images. No project that is healthy with the old images gets them. */
  halt: Halt | undefined;
  counts: Record<'current' | 'underway' | 'waiting' | 'failed', number>;
}

export function planRollout(standings: readonly Standing[], batch: number): RolloutPlan {
  const current = standings.filter(({ isCurrent }) => isCurrent);
  const waiting = standings.filter(({ isCurrent }) => !isCurrent).sort(byTurn);
  const failed = current.filter(({ state }) => state === 'failed').sort(byName);
  const underway = current.filter(({ state }) => state === 'underway').length;
  // A project that fails with the old images too has nothing to lose. Its failure is no evidence against the new
  // images.
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
/**
 * Order in which projects get the images, by their state. A project may fail for a reason of its own, so the new images
 * must not be tried with a failed project first.
 */
const TURNS = { well: 0, underway: 1, failed: 2 };
const byTurn = (a: Standing, b: Standing) => TURNS[a.state] - TURNS[b.state] || byName(a, b);
