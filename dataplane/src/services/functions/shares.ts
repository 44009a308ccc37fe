/**
 * Shares of this machine that a project, and all projects of an account, may use for functions: isolates, processor
 * time, memory and deploys. In: the use by each project. Out: whether one more call, isolate or deploy may begin. Used
 * by `function.ts`, `deployer.ts` and `watchdog.ts`.
 */
import { Counts, type Rate, type TokenBucket, TokenBuckets } from '@slipway/program';
import { Unavailable } from './isolate.js';
import type { FunctionLimits } from './limits.js';

type Holder = 'project' | 'account';

export type Counted = 'isolates' | 'deploys';

interface Share {
  holder: Holder;
  key: string;
}

const CODES = { project: 'PROJECT_SHARE', account: 'ACCOUNT_SHARE' } as const;
const WORDS = {
  isolates: { project: 'The project', account: 'The projects of the account' },
  cpu: { project: 'The project’s functions', account: 'The functions of the account’s projects' },
};
const BUSY_RETRY_SECONDS = 2;
/** Debt of processor time, in milliseconds, beyond which calls in flight are ended too. */
const DEBT_MS = 10_000;
/** Maximum debt of processor time in milliseconds, so that Retry-After stays short. */
const MOST_DEBT_MS = 30_000;
/**
 * Maximum number of projects and accounts whose processor time is recorded. Fewer have functions within a few minutes.
 */
const KEYS = 10_000;

export class Shares {
  readonly #counts = { isolates: new Counts(), deploys: new Counts() };
  readonly #rates: Record<Holder, Rate>;
  /** Milliseconds of processor time. */
  readonly #credits: TokenBuckets;
  /** Shares in debt. Usually empty, and the only part that each call checks. */
  readonly #overdrawn = new Map<string, Holder>();

  constructor(
    private readonly limits: FunctionLimits,
    /** Returns the account that owns a project; undefined: unknown, and only the project's share counts. */
    private readonly ownerOf: (ref: string) => string | undefined,
    now?: () => number,
  ) {
    const rateOf = (cores: number) => ({
      burst: limits.cpuMillisecondsOfShare,
      perSecond: cores * 1_000,
      mostDebt: MOST_DEBT_MS,
    });
    this.#rates = { project: rateOf(limits.coresOfProject), account: rateOf(limits.coresOfAccount) };
    this.#credits = new TokenBuckets(this.#rates.project, KEYS, now);
  }

  /** Returns the share whose limit is reached, if any. */
  full(what: Counted, ref: string): Holder | undefined {
    return this.#of(ref).find(({ holder, key }) => this.#counts[what].of(key) >= this.#bound(what, holder))?.holder;
  }

  /** Counts one more use, until the returned function is called. */
  begin(what: Counted, ref: string): () => void {
    // The returned function releases the same shares, even if the project has another owner by then.
    const shares = this.#of(ref);
    for (const { key } of shares) this.#counts[what].add(key);
    return () => {
      for (const { key } of shares) this.#counts[what].remove(key);
    };
  }

  /** Takes processor time from a project's shares. Returns true if the debt is so large that its isolates must end. */
  spend(ref: string, milliseconds: number): boolean {
    let isDeep = false;
    for (const { holder, key } of this.#of(ref)) {
      const credit = this.#credit(holder, key);
      if (credit.charge(milliseconds) > 0) this.#overdrawn.set(key, holder);
      isDeep ||= credit.tokens < -DEBT_MS;
    }
    return isDeep;
  }

  /** Throws if a project, or its account, has used up its processor time. */
  check(ref: string): void {
    if (this.#overdrawn.size === 0) return;
    for (const { holder, key } of this.#of(ref)) {
      if (!this.#overdrawn.has(key)) continue;
      const seconds = Math.ceil(this.#credit(holder, key).wait(0));
      if (seconds > 0)
        throw new Unavailable(CODES[holder], `${WORDS.cpu[holder]} used up their processor time`, seconds);
      this.#overdrawn.delete(key);
    }
  }

  /** Returns the error for the caller of a function when `full` found no room. */
  refusal(holder: Holder): Unavailable {
    const message = `${WORDS.isolates[holder]} may run no more functions at once`;
    return new Unavailable(CODES[holder], message, BUSY_RETRY_SECONDS);
  }

  /** Returns the shares that exceed their memory, from the use by each project. */
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

  /** Drops the shares without debt. */
  prune(): void {
    for (const [key, holder] of this.#overdrawn) {
      if (this.#credit(holder, key).wait(0) === 0) this.#overdrawn.delete(key);
    }
  }

  #of(ref: string): Share[] {
    const owner = this.ownerOf(ref);
    const project: Share = { holder: 'project', key: PROJECT + ref };
    return owner === undefined ? [project] : [project, { holder: 'account', key: ACCOUNT + owner }];
  }

  #credit(holder: Holder, key: string): TokenBucket {
    return this.#credits.of(key, this.#rates[holder]);
  }

  #bound(what: Counted, holder: Holder): number {
    const { isolatesOfProject, isolatesOfAccount, deploysOfProject, deploysOfAccount } = this.limits;
    if (what === 'isolates') return holder === 'project' ? isolatesOfProject : isolatesOfAccount;
    return holder === 'project' ? deploysOfProject : deploysOfAccount;
  }
}

/** Prefix of an account's key: no ref begins like it. */
const PROJECT = 'project ';
const ACCOUNT = 'account ';
