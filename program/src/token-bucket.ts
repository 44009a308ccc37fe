/**
 * Token buckets, which limit a rate. A bucket starts full, with `burst` tokens, and is refilled at `perSecond` by the
 * monotonic clock, which changes of the system time do not affect. In: a cost. Out: the time to wait.
 */

export interface Rate {
  /** Tokens of a full bucket, which can be taken at once. */
  burst: number;
  perSecond: number;
  /** Maximum debt that `charge` can leave. Default: no limit. */
  mostDebt?: number;
}

type Clock = () => number;

const monotonic: Clock = () => performance.now();

export class TokenBucket {
  #tokens: number;
  #refilledAt: number;

  /** `rate` may be replaced at any time: the remaining tokens stay. */
  constructor(
    public rate: Rate,
    private readonly now: Clock = monotonic,
  ) {
    this.#tokens = rate.burst;
    this.#refilledAt = now();
  }

  /** Remaining tokens. Negative: debt. */
  get tokens(): number {
    const now = this.now();
    const { burst, perSecond } = this.rate;
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#refilledAt) / 1000) * perSecond);
    this.#refilledAt = now;
    return this.#tokens;
  }

  /**
   * Takes `cost` tokens and returns 0 if there are enough. Otherwise takes none, and returns the seconds until there
   * are.
   */
  take(cost = 1): number {
    const wait = this.wait(cost);
    if (wait === 0) this.#tokens -= cost;
    return wait;
  }

  /** Takes `cost` tokens if there are enough. Returns whether it did. */
  tryTake(cost = 1): boolean {
    return this.take(cost) === 0;
  }

  /** Returns the seconds until there are `cost` tokens; 0: now. Infinity: never. Takes nothing. */
  wait(cost = 1): number {
    const missing = cost - this.tokens;
    return missing > 0 ? missing / this.rate.perSecond : 0;
  }

  /** Takes `cost` tokens for a past event. Returns the seconds until the debt is paid. */
  charge(cost: number): number {
    const { mostDebt = Infinity } = this.rate;
    this.#tokens = Math.max(-mostDebt, this.tokens - cost);
    return this.wait(0);
  }

  /** Returns a token that was taken for an event that does not count. */
  giveBack(): void {
    this.#tokens = this.tokens + 1;
  }
}

const KEYS = 10_000;

/**
 * Token bucket for each key. Retains the `keys` most recently used, and up to as many again; an evicted key has a full
 * bucket.
 */
export class TokenBuckets {
  #recent = new Map<string, TokenBucket>();
  #older = new Map<string, TokenBucket>();

  constructor(
    private readonly rate: Rate,
    private readonly keys = KEYS,
    private readonly now: Clock = monotonic,
  ) {}

  /** Returns the key's bucket. `rate` sets the rate of this key if it differs from the default. */
  of(key: string, rate = this.rate): TokenBucket {
    const bucket = this.#recent.get(key) ?? this.#remember(key, rate);
    bucket.rate = rate;
    return bucket;
  }

  #remember(key: string, rate: Rate): TokenBucket {
    const bucket = this.#older.get(key) ?? new TokenBucket(rate, this.now);
    if (this.#recent.size >= this.keys) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(key, bucket);
    return bucket;
  }
}
