/**
 * How often somebody may do something: a bucket that fills again with time. Memory is bounded: when too many are known,
 * those not heard of lately are forgotten first.
 */
export interface RateLimit {
  /** How many may come at once. */
  burst: number;
  perSecond: number;
}

interface Bucket {
  tokens: number;
  filled: number;
}

export class RateLimiter {
  #recent = new Map<string, Bucket>();
  #older = new Map<string, Bucket>();

  constructor(
    private readonly capacity = 20_000,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Takes one; else says in how many seconds there is one again. */
  take(key: string, limit: RateLimit): number {
    const bucket = this.#bucket(key, limit);
    if (bucket.tokens < 1) return limit.perSecond > 0 ? Math.ceil((1 - bucket.tokens) / limit.perSecond) : Infinity;
    bucket.tokens--;
    return 0;
  }

  #bucket(key: string, limit: RateLimit): Bucket {
    const now = this.now();
    const bucket = this.#recent.get(key) ?? this.#older.get(key) ?? { tokens: limit.burst, filled: now };
    bucket.tokens = Math.min(limit.burst, bucket.tokens + ((now - bucket.filled) / 1000) * limit.perSecond);
    bucket.filled = now;
    if (!this.#recent.has(key)) {
      if (this.#recent.size >= this.capacity / 2) {
        this.#older = this.#recent;
        this.#recent = new Map();
      }
      this.#recent.set(key, bucket);
    }
    return bucket;
  }
}
