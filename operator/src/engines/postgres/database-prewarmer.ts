/**
 * Keeps spare databases, which do not belong to a project yet, so that a project gets its database in milliseconds.
 * Spare databases are made in the background. If more are requested than are ready, the next one is assigned to the
 * request that has waited longest.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { delayOf } from '@slipway/program';
import {
  BUILDING_PREFIX,
  buildSpare,
  dropDatabase,
  dropRole,
  ensureTemplate,
  LOGIN_ROLES,
  literal,
  newSpareId,
  SPARE_PREFIX,
  spareRef,
  TEMPLATE,
  TEMPLATE_PREFIX,
} from '@slipway/project-database';
import type { Logger } from 'pino';
import { every } from '../../runtime/every.js';
import type { ClusterSessions } from './cluster-sessions.js';

/**
 * Number of concurrent builds of spare databases: in the background, and while a request waits. The speed of CREATE
 * DATABASE is limited by the disk, and by one core each.
 */
const BACKGROUND_BUILDS = 2;
const DEMAND_BUILDS = 3;
const BACKOFF = { firstMs: 500, maxMs: 30_000 };
/**
 * Milliseconds before the next spare database is made: the project that got the last one still needs the disk and a
 * core.
 */
const PAUSE_AFTER_TAKE_MS = 300;
/**
 * Milliseconds between sweeps. Statements of a former leader may finish only after that leader has ended, and after the
 * first sweep.
 */
const SWEEP_MS = 30_000;
const SWEEP = 'dropping leftover spare databases';

interface Waiter {
  resolve(id: string): void;
  reject(error: Error): void;
}

export class DatabasePrewarmer {
  readonly #sessions: ClusterSessions;
  readonly #kept: number;
  readonly #log: Logger;
  readonly #stop = new AbortController();
  #ready: string[] = [];
  readonly #waiters: Waiter[] = [];
  readonly #builds = new Map<string, Promise<void>>();
  #failures = 0;
  #resting = false;
  #pause: NodeJS.Timeout | undefined;
  /** Spares that the last sweep found ready, and that this process did not make. */
  #strangers = new Set<string>();
  #endSweeps: (() => void) | undefined;
  readonly #sweepMs: number;

  /** `kept`: the number of spares to keep ready. With 0, each database is made on request. */
  constructor(sessions: ClusterSessions, kept: number, log: Logger, sweepMs = SWEEP_MS) {
    this.#sessions = sessions;
    this.#kept = kept;
    this.#log = log;
    this.#sweepMs = sweepMs;
  }

  /**
   * Drops databases that an earlier run left half made, or that an older version made. Keeps the other spares, and
   * starts to make the missing ones.
   */
  async start(): Promise<void> {
    await this.#sweep();
    await ensureTemplate(this.#sessions, this.#sessions.connect);
    this.#ready = await this.#existingSpares();
    this.#endSweeps ??= every(this.#sweepMs, SWEEP, () => this.#sweepWhole(), this.#log);
    this.#pump();
  }

  /** Returns the id of a spare that no other call gets. */
  take(): Promise<string> {
    const id = this.#ready.shift();
    if (id !== undefined) {
      this.#pumpLater();
      return Promise.resolve(id);
    }
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
      this.#pump();
    });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#pause);
    this.#endSweeps?.();
    for (const { reject } of this.#waiters.splice(0)) reject(new Error('the operator is stopping'));
    await Promise.all(this.#builds.values());
  }

  #pumpLater(): void {
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined;
      this.#pump();
    }, PAUSE_AFTER_TAKE_MS).unref();
  }

  #pump(): void {
    if (this.#stop.signal.aborted || (this.#resting && this.#waiters.length === 0)) return;
    const limit = this.#waiters.length > 0 ? DEMAND_BUILDS : BACKGROUND_BUILDS;
    const wanted = this.#waiters.length + this.#kept - this.#ready.length;
    while (this.#builds.size < Math.min(limit, wanted)) {
      const id = newSpareId();
      this.#builds.set(id, this.#build(id));
    }
  }

  async #build(id: string): Promise<void> {
    try {
      await buildSpare(this.#sessions, this.#sessions.connect, id);
      this.#failures = 0;
      const waiter = this.#waiters.shift();
      if (waiter) waiter.resolve(id);
      else this.#ready.push(id);
    } catch (error) {
      this.#failures += 1;
      this.#log.warn({ why: (error as Error).message }, 'spare database not created');
      // The waiting request gets the error now. It retries after a delay of its own.
      this.#waiters.shift()?.reject(error as Error);
      await this.#clean(id);
      this.#rest();
    } finally {
      this.#builds.delete(id);
      this.#pump();
    }
  }

  /** Drops a half-made database. If that fails, the sweep drops it before the next one is made. */
  #clean(id: string): Promise<void> {
    return dropDatabase(this.#sessions, BUILDING_PREFIX + id, spareRef(id)).catch((error: Error) => {
      this.#log.warn({ why: error.message }, 'half-made spare database left for the next sweep');
    });
  }

  #rest(): void {
    if (this.#resting) return;
    this.#resting = true;
    const signal = this.#stop.signal;
    sleep(delayOf(BACKOFF, this.#failures), undefined, { signal, ref: false })
      .then(() => this.#sweep())
      .catch(() => undefined)
      .finally(() => {
        this.#resting = false;
        this.#pump();
      });
  }

  /** Drops leftovers. Logs a failure, and does not throw: a project can get its database all the same. */
  async #sweep(): Promise<void> {
    await this.#dropLeftovers().catch((error: Error) =>
      this.#log.warn({ what: SWEEP, why: error.message }, 'periodic work failed; retried'),
    );
  }

  async #sweepWhole(): Promise<void> {
    await this.#dropLeftovers();
    await this.#settleStrangers();
  }

  /**
   * Adopts or drops spares that this process did not make. A former leader may have made one after the start of this
   * process, and a take may have failed. A spare counts only when two sweeps in a row have seen it. By then a take in
   * progress is over. A replaced leader exits before its second sweep, so it drops no spare of its successor.
   */
  async #settleStrangers(): Promise<void> {
    const ready = new Set(this.#ready);
    const before = new Set([...ready, ...this.#builds.keys()]);
    const found = await this.#existingSpares();
    // Forgets spares that another operator dropped or took. A spare that became ready during the query is found by the
    // next sweep.
    this.#ready = this.#ready.filter((id) => !ready.has(id) || found.includes(id));
    const strangers = found.filter((id) => !before.has(id) && !this.#ready.includes(id) && !this.#builds.has(id));
    const seen = this.#strangers;
    this.#strangers = new Set(strangers);
    for (const id of strangers.filter((stranger) => seen.has(stranger))) {
      if (this.#ready.length + this.#builds.size < this.#kept) this.#ready.push(id);
      else await dropDatabase(this.#sessions, SPARE_PREFIX + id, spareRef(id));
    }
    this.#pump();
  }

  /**
   * Drops half-made databases, spares of older versions, and roles without a database. Keeps those that are being made
   * now.
   */
  async #dropLeftovers(): Promise<void> {
    const isLeft = this.#notBeingMade();
    const { rows } = await this.#sessions.query(`
      SELECT datname FROM pg_database
      WHERE datname LIKE ${literal(`${BUILDING_PREFIX}%`)}
         OR datname LIKE ${literal(`${SPARE_PREFIX}%`)} AND datname NOT LIKE ${literal(`${SPARE_PREFIX}${version}-%`)}
         OR datname LIKE ${literal(`${TEMPLATE_PREFIX}%`)} AND datname <> ${literal(TEMPLATE)}`);
    const idOf = (datname: string) => datname.replace(/^slipway-(building|spare|template)-/, '');
    const leftovers = rows.map(({ datname }) => String(datname)).filter((datname) => isLeft(idOf(datname)));
    for (const datname of leftovers) await dropDatabase(this.#sessions, datname, spareRef(idOf(datname)));
    await this.#dropRolesWithoutDatabase();
  }

  /** Returns a predicate: true for an id that was in the making neither at this call nor at the test. */
  #notBeingMade(): (id: string) => boolean {
    const before = new Set(this.#builds.keys());
    return (id) => !before.has(id) && !this.#builds.has(id);
  }

  async #dropRolesWithoutDatabase(): Promise<void> {
    const isLeft = this.#notBeingMade();
    const patterns = LOGIN_ROLES.map(
      (role) => `rolname LIKE ${literal(`${role.name(spareRef(''))}%`.replaceAll('_', '\\_'))}`,
    );
    const { rows } = await this.#sessions.query(`
      SELECT rolname, oid::text, substring(rolname FROM '\\.spare_(.*)$') AS id FROM pg_roles
      WHERE (${patterns.join(' OR ')}) AND NOT EXISTS (
        SELECT FROM pg_database WHERE datname = ${literal(SPARE_PREFIX)} || substring(rolname FROM '\\.spare_(.*)$'))`);
    const leftovers = (rows as { rolname: string; oid: string; id: string }[]).filter(({ id }) => isLeft(id));
    for (const { rolname, oid } of leftovers) await dropRole(this.#sessions, rolname, oid);
  }

  async #existingSpares(): Promise<string[]> {
    const { rows } = await this.#sessions.query(
      `SELECT datname FROM pg_database WHERE datname LIKE ${literal(`${SPARE_PREFIX}${version}-%`)}`,
    );
    return rows.map((row) => String(row.datname).slice(SPARE_PREFIX.length));
  }
}

const version = TEMPLATE.slice(TEMPLATE_PREFIX.length);
