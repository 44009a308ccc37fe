/**
 * Databases that are nobody's yet, so that a project takes one in milliseconds. So many are kept ready, made in the
 * background; when more are wanted at once than there are, the next that is made is given to who waits longest.
 */
import { setTimeout as sleep } from 'node:timers/promises';
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
import { delayOf } from '../../runtime/backoff.js';
import { every } from '../../runtime/every.js';
import type { ClusterSessions } from './cluster-sessions.js';

/** Built at once in the background, and when somebody waits: CREATE DATABASE is bound by the disk and one core each. */
const BACKGROUND_BUILDS = 2;
const DEMAND_BUILDS = 3;
const BACKOFF = { firstMs: 500, maxMs: 30_000 };
/** Delay before the next spare is made: the project that took the last one still needs the disk and a core. */
const PAUSE_AFTER_TAKE_MS = 300;
/** Interval of the sweep: requests of a former leader may finish only after its death, and after the first sweep. */
const SWEEP_MS = 30_000;
const SWEEP = 'dropping what was left half made';

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
  /** Ready, of the last sweep, and not of our making. */
  #strangers = new Set<string>();
  #endSweeps: (() => void) | undefined;
  readonly #sweepMs: number;

  /** `kept`: how many are ready for who comes next; 0: each is made when it is asked for. */
  constructor(sessions: ClusterSessions, kept: number, log: Logger, sweepMs = SWEEP_MS) {
    this.#sessions = sessions;
    this.#kept = kept;
    this.#log = log;
    this.#sweepMs = sweepMs;
  }

  /** Drops what an earlier run left half made or an older version made, keeps the rest, and begins to fill up. */
  async start(): Promise<void> {
    await this.#sweep();
    await ensureTemplate(this.#sessions, this.#sessions.connect);
    this.#ready = await this.#found();
    this.#endSweeps ??= every(this.#sweepMs, SWEEP, () => this.#sweepWhole(), this.#log);
    this.#pump();
  }

  /** The id of a spare that no other call is given. */
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
      // Who waits gets the reason now and comes back with a delay of its own.
      this.#waiters.shift()?.reject(error as Error);
      await this.#clean(id);
      this.#rest();
    } finally {
      this.#builds.delete(id);
      this.#pump();
    }
  }

  /** Drops a database that is half made; on failure, before the next one is made. */
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

  /** Drops leftovers. A failure keeps no project from its database. */
  async #sweep(): Promise<void> {
    await this.#dropLeftovers().catch((error: Error) => this.#log.warn({ why: error.message }, `${SWEEP} failed`));
  }

  async #sweepWhole(): Promise<void> {
    await this.#dropLeftovers();
    await this.#settleStrangers();
  }

  /**
   * A former leader may have made one after the start, and a take may have failed. Seen twice, as what is being taken
   * now is gone by then, and as a leader that is one no more does not live to its second sweep, and so drops nothing of
   * its successor's.
   */
  async #settleStrangers(): Promise<void> {
    const ready = new Set(this.#ready);
    const before = new Set([...ready, ...this.#builds.keys()]);
    const found = await this.#found();
    // What another dropped or took is nobody's to be given; what became ready meanwhile may be found the next time
    // only.
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
   * Drops half-made databases, spares of older versions, and roles that have no database; not what is being made now.
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

  /**
   * Tells of what is asked for after this call, as soon as it is known: one that is made meanwhile has another name by
   * then.
   */
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

  async #found(): Promise<string[]> {
    const { rows } = await this.#sessions.query(
      `SELECT datname FROM pg_database WHERE datname LIKE ${literal(`${SPARE_PREFIX}${version}-%`)}`,
    );
    return rows.map((row) => String(row.datname).slice(SPARE_PREFIX.length));
  }
}

const version = TEMPLATE.slice(TEMPLATE_PREFIX.length);
