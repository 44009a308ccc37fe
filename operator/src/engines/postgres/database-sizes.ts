/**
 * Watches the sizes of projects' databases, and stops the growth of those that exceed their quota. In: a superuser's
 * sessions, and the project of each database. `fullness.ts` decides, and `full-databases.ts` applies the decision.
 * Called by the server, and only where projects share it.
 */
import type { Plan } from '@slipway/crds';
import { DATABASE_BYTES, databaseIdIn, ownerRole } from '@slipway/installation';
import { literal, type Session } from '@slipway/project-database';
import type { Logger } from 'pino';
import type { Usage } from '../../capabilities/index.js';
import { every } from '../../runtime/every.js';
import {
  endSessions,
  keepShut,
  NOT_REWRITING,
  prepareFullDatabases,
  setFull,
  setWritable,
  shutRoles,
} from './full-databases.js';
import { DATABASES_OF_ACCOUNT, type Fullness, fullnessAfter, type Look, mayRewrite } from './fullness.js';
import type { PostgresDisk } from './postgres-disk.js';

/**
 * Intervals between looks at the size of a database:
 * - Each look, if the database is near its quota or over it, and a session writes to it.
 * - Each second, if it is near its quota or over it, or a session writes to it, or its rows changed.
 * - Each minute for all databases.
 */
const LOOK_MS = 50;
const WRITERS_MS = 1_000;
const ALL_MS = 60_000;
/**
 * Bytes of free quota below which a database counts as near its quota. They are more than a session can write in
 * WRITERS_MS.
 */
const NEAR_BYTES = 250e6;

interface Measured {
  database: string;
  size: number;
  isRewriting: boolean;
}

/** A project with a database on the server. */
export interface Housed {
  ref: string;
  owner: string;
  plan: Plan;
}

export class DatabaseSizes {
  #full = new Map<string, Fullness>();
  readonly #sizes = new Map<string, number>();
  readonly #near = new Set<string>();
  /** True while only the reserve of the disk is free. Then no database may grow. */
  #isDiskLow = false;
  /** Counts of changed rows in each database, from Postgres' statistics. */
  #changes = new Map<string, number>();
  #due = { look: 0, writers: 0, all: 0 };
  #end: (() => void) | undefined;

  constructor(
    private readonly session: Session,
    private readonly projects: ReadonlyMap<string, Housed>,
    private readonly onFull: (database: string, message: string) => void,
    private readonly log: Logger,
    private readonly disk: PostgresDisk,
    private readonly quotas = DATABASE_BYTES,
  ) {}

  /** Reads the decisions of an earlier operator process. Call it before any other method. */
  async prepare(): Promise<void> {
    this.#full = await prepareFullDatabases(this.session);
  }

  start(): void {
    this.#end ??= every(LOOK_MS, 'looking at the sizes of databases', () => this.look(), this.log);
  }

  close(): void {
    this.#end?.();
  }

  /** Returns the roles of the database that must not log in now. */
  shutRoles(database: string): string[] {
    return shutRoles(database, this.#full.get(database)?.level ?? 0);
  }

  /** Returns the bytes of the database at the last look, and which of its logins are shut. */
  usage(database: string): Usage | undefined {
    const [used, project] = [this.#sizes.get(database), this.projects.get(database)];
    if (used === undefined || !project) return undefined;
    const full = this.#full.get(database);
    const shut = full && full.level > 0 ? { shut: `It kept growing: ${shutMessage(full)}` } : {};
    return { used, limit: this.quotas[project.plan], ...shut };
  }

  async look(now = Date.now()): Promise<void> {
    if (now < this.#due.look) return;
    const due = { all: now >= this.#due.all, writers: now >= this.#due.writers };
    const near = [...this.#near, ...this.#full.keys()];
    if (!due.all && !due.writers && near.length === 0) return;
    if (due.writers) await this.#lookAtDisk();
    const began = performance.now();
    const written = due.writers ? await this.#written() : [];
    const { rows } = await this.session.query(sizes([...near, ...written], due));
    // The pause is at least as long as the look itself took: a tenant can make many files.
    this.#due.look = now + Math.max(LOOK_MS, performance.now() - began);
    if (due.writers) this.#due.writers = now + WRITERS_MS;
    if (due.all) this.#due.all = now + ALL_MS;
    const found = (rows as unknown as Measured[]).map((row) => ({ ...row, size: Number(row.size) }));
    for (const { database, size } of found) this.#sizes.set(database, size);
    if (due.all) this.#forget(new Set(found.map(({ database }) => database)));
    for (const each of found) {
      const project = this.projects.get(each.database);
      if (project) await this.#judge(each, project, now);
    }
  }

  /** Returns the databases whose rows changed since the last look, also by sessions too short to be seen. */
  async #written(): Promise<string[]> {
    const { rows } = await this.session.query(`
      SELECT datname AS database, tup_inserted + tup_updated + tup_deleted AS changes FROM pg_stat_database
      WHERE datname LIKE 'p-%'`);
    const before = this.#changes;
    this.#changes = new Map(rows.map(({ database, changes }) => [String(database), Number(changes)]));
    return [...this.#changes].filter(([database, changes]) => before.get(database) !== changes).map(([name]) => name);
  }

  async #lookAtDisk(): Promise<void> {
    const bytes = [...this.#sizes.values()].reduce((sum, size) => sum + size, 0);
    // If the disk can't be checked, the last result stands: the quotas must apply all the same.
    const isLow = await this.disk.isLow(bytes).catch(() => this.#isDiskLow);
    if (isLow === this.#isDiskLow) return;
    this.#isDiskLow = isLow;
    this.#due.all = 0;
    if (isLow) this.log.error('disk of Postgres almost full, databases now read-only');
    else this.log.info('disk of Postgres has room again');
  }

  #forget(present: ReadonlySet<string>): void {
    for (const known of [this.#sizes, this.#near, this.#full]) {
      for (const database of known.keys()) if (!present.has(database)) known.delete(database);
    }
  }

  async #judge({ database, size, isRewriting }: Measured, project: Housed, now: number): Promise<void> {
    const quota = this.quotas[project.plan];
    const account = this.#account(project);
    const isDiskLow = this.#isDiskLow;
    const share = Math.max(size / quota, account.size / account.quota, isDiskLow ? NO_ROOM : 0);
    // A rewrite would fill the rest of the disk.
    const look: Look = { size, quota, share, isRewriting: isRewriting && !isDiskLow, now };
    const room = Math.min(quota - size, account.quota - account.size);
    if (room < NEAR_BYTES) this.#near.add(database);
    else this.#near.delete(database);
    const before = this.#full.get(database);
    const after = fullnessAfter(before, look);
    if (after === undefined) {
      if (before) await this.#open(database, project);
      return;
    }
    this.#full.set(database, after);
    const isNews = !before || after.level !== before.level;
    if (isNews || after.base > before.base) await this.#restrict(database, project, after, before, look);
    else if (after.level > 0) {
      await keepShut(this.session, database, after.level);
      if (mayRewrite(look)) await endSessions(this.session, database, WRITING);
    }
  }

  /** Returns the size and the quota, in bytes, of all databases that the project's account has on this server. */
  #account({ owner }: Housed): { size: number; quota: number } {
    let size = 0;
    let quota = 0;
    for (const [database, project] of this.projects) {
      if (project.owner !== owner) continue;
      size += this.#sizes.get(database) ?? 0;
      quota = Math.max(quota, this.quotas[project.plan] * DATABASES_OF_ACCOUNT);
    }
    return { size, quota };
  }

  async #restrict(
    database: string,
    { ref, plan }: Housed,
    full: Fullness,
    before: Fullness | undefined,
    look: Look,
  ): Promise<void> {
    const isSpared = mayRewrite(look) ? NOT_REWRITING : 'true';
    const writing = `${isSpared} AND backend_xid IS NOT NULL`;
    // Ends sessions now, and again after the logins are shut, when no session can replace an ended one.
    if (before && full.level > 0) await endSessions(this.session, database, writing);
    await setFull(this.session, database, full, !before);
    const roles = shutRoles(database, full.level).map(literal).join(', ');
    // The read-only settings take effect in new sessions only.
    const ended = before ? `(${writing}) OR ${isSpared} AND usename = ANY (ARRAY[${roles}]::text[])` : 'true';
    if (!before || full.level > 0) await endSessions(this.session, database, ended);
    const { size } = look;
    this.log.warn({ ref, plan, size, level: full.level, shuts: full.shuts }, 'database quota exceeded');
    if (!before || full.level > before.level) this.onFull(database, messageOf(full, look, this.#isDiskLow));
  }

  async #open(database: string, { ref }: Housed): Promise<void> {
    await setWritable(this.session, database);
    this.#full.delete(database);
    const others = `usename <> ${literal(ownerRole(databaseIdIn(database)))}`;
    await endSessions(this.session, database, others);
    this.log.info({ ref }, 'database below its quota again, now writable');
  }
}

/** SQL condition for a session that writes, except by a rewrite, which needs some room first to free room. */
const WRITING = `backend_xid IS NOT NULL AND ${NOT_REWRITING}`;

/** Share of its quota that a database counts as using while the disk is low: more than all of it. */
const NO_ROOM = 1.01;

function messageOf(full: Fullness, { size, quota }: Look, isDiskLow: boolean): string {
  const { level } = full;
  const isOfAccount = size <= quota;
  if (level === 0 && isDiskLow && isOfAccount) {
    return (
      'The disk of the Postgres server is almost full: ' +
      'the database is read-only until an administrator makes room.'
    );
  }
  const limit = isOfAccount
    ? `The databases of this account are together larger than ${DATABASES_OF_ACCOUNT} times its largest plan's quota`
    : `The database is larger than the ${quota / 1e6} MB of its plan`;
  if (level === 0) {
    return (
      `${limit}, and is read-only. Use a larger plan, or delete data at db_url after ` +
      '`set default_transaction_read_only = off`: drop or truncate tables, or delete rows and run VACUUM FULL.'
    );
  }
  return `${limit}, and it kept growing: ${shutMessage(full)}`;
}

function shutMessage({ level, shutUntil }: Fullness): string {
  const shut = ['db_url is', 'db_url and /query are', 'all its services, db_url and /query are'];
  return (
    `${shut[level - 1]} shut until ${new Date(shutUntil).toISOString()}. ` +
    `${level === 1 ? 'Make' : 'Then make'} room by POST /projects/{id}/query.`
  );
}

/** The sizes of all databases; or of those in `near` and of those that sessions write to. */
const sizes = (near: readonly string[], { all, writers }: { all: boolean; writers: boolean }) => `
  SELECT datname AS database, pg_database_size(oid) AS size,
    EXISTS (SELECT FROM pg_stat_progress_cluster c WHERE c.datid = d.oid) AS "isRewriting"
  FROM pg_database d
  WHERE (${all}
    OR ${writers} AND (oid IN (${WRITTEN_TO}) OR datname = ANY (${names(near)}))
    OR datname = ANY (${names(near)}) AND oid IN (${WRITTEN_TO}))`;

const WRITTEN_TO = `
  SELECT datid FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND backend_type = 'client backend'`;

const names = (databases: readonly string[]) => `ARRAY[${databases.map(literal).join(', ')}]::text[]`;
