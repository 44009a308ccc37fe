/**
 * Runs work on one object for one request at a time, across replicas: a check, and the write that depends on the check.
 * In: a kind of work, the object's id and the work. An advisory lock of the platform database ensures this. The lock is
 * released when its session ends.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { ConcurrencyLimit, delayOf } from '@slipway/program';
import { retryLater } from '../http/problem.js';

/** Kinds of work. The number of the kind is the first number of an advisory lock; the object's id is the second. */
const KINDS = {
  projectSecrets: 7_541_210,
  projectFunctions: 7_541_211,
  projectBuilds: 7_541_212,
  projectNumbers: 7_541_213,
  projectRestConfig: 7_541_214,
} as const;
export type WorkKind = keyof typeof KINDS;

/**
 * Maximum number of calls whose work runs at once in this process. Each uses a connection of the pool, and may need
 * another one.
 */
const AT_ONCE = { most: 4 };
const PATIENCE_MS = 8_000;
const BACKOFF = { firstMs: 8, maxMs: 150, jitter: 2 / 3 };

@Injectable()
export class ExclusiveWork {
  private readonly limit = new ConcurrencyLimit(AT_ONCE);

  constructor(private readonly orm: MikroORM) {}

  /** Waits for the lock. Fails with 503 and Retry-After if it takes too long. */
  async run<T>(kind: WorkKind, id: number, work: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + PATIENCE_MS;
    for (let attempt = 1; ; attempt++) {
      const done = await this.attempt(kind, id, work);
      if (done) return done.value;
      if (performance.now() > deadline) {
        throw retryLater('unavailable', 'Other requests change the same project now. Try again.', 1);
      }
      await pause(delayOf(BACKOFF, attempt));
    }
  }

  /** Returns undefined if another request has the lock. A waiting request uses no connection. */
  private async attempt<T>(kind: WorkKind, id: number, work: () => Promise<T>): Promise<{ value: T } | undefined> {
    if (this.limit.isFull('')) return undefined;
    return this.limit.run('', () =>
      this.orm.em.fork().transactional(async (em) => {
        const sql = 'select pg_try_advisory_xact_lock(?::int, ?::int) as locked';
        const [row] = (await em.execute(sql, [KINDS[kind], id])) as { locked: boolean }[];
        return row?.locked ? { value: await work() } : undefined;
      }),
    );
  }
}
