/**
 * Databases that are nobody's yet, so that a project takes one in milliseconds. So many are kept ready, made in the
 * background; when more are wanted at once than there are, the next that is made is given to who waits longest.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  BUILDING_PREFIX,
  buildSpare,
  dropDatabase,
  ensureTemplate,
  identifier,
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
import type { ClusterSessions } from './cluster-sessions.js';

/** Built at once in the background, and when somebody waits: CREATE DATABASE is bound by the disk and one core each. */
const BACKGROUND_BUILDS = 2;
const DEMAND_BUILDS = 3;
const BACKOFF = { firstMs: 500, maxMs: 30_000 };
/** Whoever took the last spare still needs the disk and a core for the rest of its provisioning: making the next one waits so long. */
const PAUSE_AFTER_TAKE_MS = 300;

interface Waiter {
  resolve(id: string): void;
  reject(error: Error): void;
}

export class Spares {
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

  /** `kept`: how many are ready for who comes next; 0: each is made when it is asked for. */
  constructor(sessions: ClusterSessions, kept: number, log: Logger) {
    this.#sessions = sessions;
    this.#kept = kept;
    this.#log = log;
  }

  /** Drops what an earlier run left half made or an older version made, keeps the rest, and begins to fill up. */
  async start(): Promise<void> {
    await this.#dropLeftovers();
    await ensureTemplate(this.#sessions, this.#sessions.connect);
    this.#ready = await this.#found();
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
      this.#log.warn({ why: (error as Error).message }, 'a spare database could not be made');
      // Who waits gets the reason now and comes back with a delay of its own.
      this.#waiters.shift()?.reject(error as Error);
      await this.#clean(id);
      this.#rest();
    } finally {
      this.#builds.delete(id);
      this.#pump();
    }
  }

  /** What can't be dropped now is dropped before the next is made. */
  #clean(id: string): Promise<void> {
    return dropDatabase(this.#sessions, BUILDING_PREFIX + id, spareRef(id)).catch((error: Error) => {
      this.#log.warn({ why: error.message }, 'a half-made spare database is left for the next sweep');
    });
  }

  #rest(): void {
    if (this.#resting) return;
    this.#resting = true;
    const signal = this.#stop.signal;
    sleep(delayOf(BACKOFF, this.#failures), undefined, { signal, ref: false })
      .then(() => this.#dropLeftovers())
      .catch((error: Error) => {
        if (!signal.aborted) this.#log.warn({ why: error.message }, 'leftovers could not be dropped');
      })
      .finally(() => {
        this.#resting = false;
        this.#pump();
      });
  }

  /** Drops half-made databases, spares of older versions, and roles that have no database; not what is being made now. */
  async #dropLeftovers(): Promise<void> {
    const { rows } = await this.#sessions.query(`
      SELECT datname, datistemplate FROM pg_database
      WHERE datname LIKE ${literal(`${BUILDING_PREFIX}%`)}
         OR datname LIKE ${literal(`${SPARE_PREFIX}%`)} AND datname NOT LIKE ${literal(`${SPARE_PREFIX}${version}-%`)}
         OR datname LIKE ${literal(`${TEMPLATE_PREFIX}%`)} AND datname <> ${literal(TEMPLATE)}`);
    for (const { datname, datistemplate } of rows as { datname: string; datistemplate: boolean }[]) {
      if (this.#builds.has(datname.slice(BUILDING_PREFIX.length))) continue;
      if (datistemplate) await this.#sessions.query(`ALTER DATABASE ${identifier(datname)} IS_TEMPLATE false`);
      await dropDatabase(this.#sessions, datname, spareRef(datname.replace(/^slipway-(building|spare|template)-/, '')));
    }
    await this.#dropRolesWithoutDatabase();
  }

  async #dropRolesWithoutDatabase(): Promise<void> {
    const patterns = LOGIN_ROLES.map(
      (role) => `rolname LIKE ${literal(`${role.name(spareRef(''))}%`.replaceAll('_', '\\_'))}`,
    );
    const { rows } = await this.#sessions.query(`
      SELECT rolname, substring(rolname FROM '\\.spare_(.*)$') AS id FROM pg_roles
      WHERE (${patterns.join(' OR ')}) AND NOT EXISTS (
        SELECT FROM pg_database WHERE datname = ${literal(SPARE_PREFIX)} || substring(rolname FROM '\\.spare_(.*)$'))`);
    for (const { rolname, id } of rows as { rolname: string; id: string }[]) {
      if (!this.#builds.has(id)) await this.#sessions.query(`DROP ROLE IF EXISTS ${identifier(rolname)}`);
    }
  }

  async #found(): Promise<string[]> {
    const { rows } = await this.#sessions.query(
      `SELECT datname FROM pg_database WHERE datname LIKE ${literal(`${SPARE_PREFIX}${version}-%`)}`,
    );
    return rows.map((row) => String(row.datname).slice(SPARE_PREFIX.length));
  }
}

const version = TEMPLATE.slice(TEMPLATE_PREFIX.length);
