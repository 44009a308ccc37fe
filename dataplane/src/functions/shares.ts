/**
 * The shares of this machine that one project, and all projects of one account, may use for functions: isolates,
 * processor time, memory and deploys. In: what each project starts and uses. Out: whether one more may begin. Asked by
 * `function.ts`, `deployer.ts` and `watchdog.ts`.
 */
import { Unavailable } from './isolate.js';
import type { FunctionLimits } from './limits.js';

type Holder = 'project' | 'account';

export type Counted = 'isolates' | 'deploys';

interface Share {
  holder: Holder;
  key: string;
}

interface Credit {
  milliseconds: number;
  /** When it was last refilled. */
  at: number;
}

const CODES = { project: 'PROJECT_SHARE', account: 'ACCOUNT_SHARE' } as const;
const WORDS = {
  isolates: { project: 'The project', account: 'The projects of the account' },
  cpu: { project: 'The project’s functions', account: 'The functions of the account’s projects' },
};
const BUSY_RETRY_SECONDS = 2;
/** Past this the calls that are under way are ended too. */
const DEBT_MS = 10_000;
/** No more is owed, so that Retry-After stays short. */
const MOST_DEBT_MS = 30_000;

export class Shares {
  readonly #counts = { isolates: new Map<string, number>(), deploys: new Map<string, number>() };
  readonly #credits = new Map<string, Credit>();
  /** The only part that a call looks at while every project keeps to its share: it is empty then. */
  readonly #overdrawn = new Set<string>();

  constructor(
    private readonly limits: FunctionLimits,
    /** The account that owns a project; undefined: unknown, and only the project's share counts. */
    private readonly ownerOf: (ref: string) => string | undefined,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** The share whose count is used up, if any. */
  full(what: Counted, ref: string): Holder | undefined {
    return this.#of(ref).find(({ holder, key }) => this.#count(what, key) >= this.#bound(what, holder))?.holder;
  }

  /** Counts one more until the returned function is called. */
  begin(what: Counted, ref: string): () => void {
    // The same shares at the end, whoever owns the project by then.
    const shares = this.#of(ref);
    for (const { key } of shares) this.#counts[what].set(key, this.#count(what, key) + 1);
    return () => {
      for (const { key } of shares) {
        const left = this.#count(what, key) - 1;
        if (left > 0) this.#counts[what].set(key, left);
        else this.#counts[what].delete(key);
      }
    };
  }

  /** Takes processor time from the shares of a project. True where so much is owed that its isolates must end. */
  spend(ref: string, milliseconds: number): boolean {
    let isDeep = false;
    for (const { holder, key } of this.#of(ref)) {
      const credit = this.#refilled(holder, key);
      credit.milliseconds = Math.max(-MOST_DEBT_MS, credit.milliseconds - milliseconds);
      if (credit.milliseconds < 0) this.#overdrawn.add(key);
      isDeep ||= credit.milliseconds < -DEBT_MS;
    }
    return isDeep;
  }

  /** Throws where a project, or its account, has used up its processor time. */
  check(ref: string): void {
    if (this.#overdrawn.size === 0) return;
    for (const { holder, key } of this.#of(ref)) {
      if (!this.#overdrawn.has(key)) continue;
      const { milliseconds } = this.#refilled(holder, key);
      if (milliseconds < 0) {
        const seconds = Math.ceil(-milliseconds / 1_000 / this.#cores(holder));
        throw new Unavailable(CODES[holder], `${WORDS.cpu[holder]} used up their processor time`, seconds);
      }
      this.#overdrawn.delete(key);
    }
  }

  /** Returns the error for the caller of a function when `full` found no room. */
  refusal(holder: Holder): Unavailable {
    const message = `${WORDS.isolates[holder]} may run no more functions at once`;
    return new Unavailable(CODES[holder], message, BUSY_RETRY_SECONDS);
  }

  /** The shares that exceed their memory, from what is used for each project. */
  overMemory(used: ReadonlyMap<string, number>): { holder: Holder; refs: string[] }[] {
    const sums = new Map<string, { holder: Holder; megabytes: number; refs: string[] }>();
    for (const [ref, megabytes] of used) {
      for (const { holder, key } of this.#of(ref)) {
        const sum = sums.get(key) ?? { holder, megabytes: 0, refs: [] };
        sum.megabytes += megabytes;
        sum.refs.push(ref);
        sums.set(key, sum);
      }
    }
    const { megabytesOfProject, megabytesOfAccount } = this.limits;
    const bounds = { project: megabytesOfProject, account: megabytesOfAccount };
    return [...sums.values()].filter(({ holder, megabytes }) => megabytes > bounds[holder]);
  }

  /** Forgets whoever has all of its processor time again. */
  prune(): void {
    for (const [key] of this.#credits) {
      const holder = key.startsWith(PROJECT) ? 'project' : 'account';
      if (this.#refilled(holder, key).milliseconds < this.limits.cpuMillisecondsOfShare) continue;
      this.#credits.delete(key);
      this.#overdrawn.delete(key);
    }
  }

  #of(ref: string): Share[] {
    const owner = this.ownerOf(ref);
    const project: Share = { holder: 'project', key: PROJECT + ref };
    return owner === undefined ? [project] : [project, { holder: 'account', key: ACCOUNT + owner }];
  }

  #refilled(holder: Holder, key: string): Credit {
    const now = this.now();
    const most = this.limits.cpuMillisecondsOfShare;
    let credit = this.#credits.get(key);
    if (credit === undefined) {
      credit = { milliseconds: most, at: now };
      this.#credits.set(key, credit);
    }
    credit.milliseconds = Math.min(most, credit.milliseconds + (now - credit.at) * this.#cores(holder));
    credit.at = now;
    return credit;
  }

  #cores = (holder: Holder) => (holder === 'project' ? this.limits.coresOfProject : this.limits.coresOfAccount);

  #count = (what: Counted, key: string) => this.#counts[what].get(key) ?? 0;

  #bound(what: Counted, holder: Holder): number {
    const { isolatesOfProject, isolatesOfAccount, deploysOfProject, deploysOfAccount } = this.limits;
    if (what === 'isolates') return holder === 'project' ? isolatesOfProject : isolatesOfAccount;
    return holder === 'project' ? deploysOfProject : deploysOfAccount;
  }
}

/** No ref and no address begins so. */
const PROJECT = 'project ';
const ACCOUNT = 'account ';
