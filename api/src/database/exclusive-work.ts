/**
 * Work that no two requests do at the same time for the same object, in whichever replica: a check and the write that
 * depends on it. In: a kind of work, the object's id and the work. Held by an advisory lock of the platform database,
 * so it ends with its holder.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { retryLater } from '../http/problem.js';

/** The first number of an advisory lock; the second is the object's id. */
const KINDS = { projectSecrets: 7_541_210, projectFunctions: 7_541_211 } as const;
export type WorkKind = keyof typeof KINDS;

/** Each holds a connection of the pool, and the work may need another. */
const AT_ONCE = 4;
const PATIENCE_MS = 8_000;
const LONGEST_PAUSE_MS = 100;

@Injectable()
export class ExclusiveWork {
  private running = 0;

  constructor(private readonly orm: MikroORM) {}

  /** Waits for its turn; fails with 503 and Retry-After when others take too long. */
  async run<T>(kind: WorkKind, id: number, work: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + PATIENCE_MS;
    for (let wait = 5; ; wait = Math.min(wait * 2, LONGEST_PAUSE_MS)) {
      const done = await this.attempt(kind, id, work);
      if (done) return done.value;
      if (performance.now() > deadline) {
        throw retryLater('unavailable', 'Other requests change the same project now. Try again.', 1);
      }
      await pause(wait * (0.5 + Math.random()));
    }
  }

  /** Undefined: another holds the lock. A request that waits holds no connection. */
  private async attempt<T>(kind: WorkKind, id: number, work: () => Promise<T>): Promise<{ value: T } | undefined> {
    if (this.running >= AT_ONCE) return undefined;
    this.running += 1;
    try {
      return await this.orm.em.fork().transactional(async (em) => {
        const sql = 'select pg_try_advisory_xact_lock(?::int, ?::int) as held';
        const [row] = (await em.execute(sql, [KINDS[kind], id])) as { held: boolean }[];
        return row?.held ? { value: await work() } : undefined;
      });
    } finally {
      this.running -= 1;
    }
  }
}
