/**
 * Makes a project's database read-only while it is larger than its plan allows. In: a superuser's sessions, and whose
 * each database is. What a database is lies in its settings, so a restart forgets nothing. Its owner can undo a
 * setting, and has to, to delete rows: so while the database still grows, the sessions that write to it are ended.
 * Called by the server; only where projects share it.
 */
import type { Plan } from '@slipway/crds';
import { databaseIdIn, ownerRole } from '@slipway/crds';
import { identifier, literal, type Session } from '@slipway/project-database';
import type { Logger } from 'pino';
import { every } from '../../runtime/every.js';

const MB = 1e6;
/** By plan, in bytes. Free: as Supabase's. */
export const DATABASE_BYTES: Readonly<Record<Plan, number>> = {
  free: 500 * MB,
  starter: 2_000 * MB,
  pro: 8_000 * MB,
  team: 32_000 * MB,
  enterprise: 128_000 * MB,
};
/**
 * Databases that a transaction writes to are looked at each time; all others, whose writers were too quick to be seen,
 * each thirtieth.
 */
const LOOK_MS = 2_000;
const LOOKS_UNTIL_ALL = 30;
/** Writable again below this share of the quota. */
const ENOUGH_ROOM = 0.95;
/** Growth that deleting rows may cause: maps of free space and of visibility. */
const GROWTH = 16 * MB;
const MARK = 'slipway.database_full';

interface Looked {
  database: string;
  size: number;
  isMarked: boolean;
}

/** A project with a database on the server. */
export interface Housed {
  ref: string;
  owner: string;
  plan: Plan;
}

export class DatabaseSizes {
  /** The smallest size of each database that is too large, since it became so. */
  readonly #least = new Map<string, number>();
  #looks = 0;
  #end: (() => void) | undefined;

  constructor(
    private readonly session: Session,
    private readonly projects: ReadonlyMap<string, Housed>,
    private readonly onFull: (database: string, message: string) => void,
    private readonly log: Logger,
    private readonly quotas = DATABASE_BYTES,
  ) {}

  start(): void {
    this.#end ??= every(LOOK_MS, 'a look at the sizes of databases', () => this.look(), this.log);
  }

  close(): void {
    this.#end?.();
  }

  async look(): Promise<void> {
    const all = this.#looks++ % LOOKS_UNTIL_ALL === 0;
    const { rows } = await this.session.query(sizes(all));
    for (const row of rows as unknown as Looked[]) {
      const project = this.projects.get(row.database);
      if (project) await this.#judge({ ...row, size: Number(row.size) }, project);
    }
  }

  async #judge({ database, size, isMarked }: Looked, { ref, plan }: Housed): Promise<void> {
    const quota = this.quotas[plan];
    if (size <= quota) {
      this.#least.delete(database);
      if (isMarked && size <= quota * ENOUGH_ROOM) await this.#open(database, ref);
      return;
    }
    if (!isMarked) return this.#shut(database, ref, quota);
    const least = Math.min(this.#least.get(database) ?? size, size);
    this.#least.set(database, least);
    if (size > least + GROWTH) await this.session.query(endSessions(database, WRITING));
  }

  async #shut(database: string, ref: string, quota: number): Promise<void> {
    const name = identifier(database);
    await this.session.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on;
      ALTER DATABASE ${name} SET ${MARK} = 'on'; ${endSessions(database, 'true')}`);
    this.log.warn({ ref, quota }, 'database larger than its plan allows, now read-only');
    this.onFull(
      database,
      `The database is larger than the ${quota / MB} MB of its plan, and is read-only. Use a larger plan, or delete data at ` +
        'db_url after `set default_transaction_read_only = off`: drop or truncate tables, or delete rows and run VACUUM FULL.',
    );
  }

  async #open(database: string, ref: string): Promise<void> {
    const name = identifier(database);
    const others = `usename <> ${literal(ownerRole(databaseIdIn(database)))}`;
    await this.session.query(`ALTER DATABASE ${name} RESET default_transaction_read_only;
      ALTER DATABASE ${name} RESET ${MARK}; ${endSessions(database, others)}`);
    this.log.info({ ref }, 'database as small as its plan allows again, and writable');
  }
}

/** A rewrite that frees room needs some first. */
const WRITING = `backend_xid IS NOT NULL AND pid NOT IN (SELECT pid FROM pg_stat_progress_cluster)`;

/** Sessions of the project; a setting of the database is good for later ones alone. */
const endSessions = (database: string, which: string) =>
  `SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_roles ON pg_roles.oid = usesysid
   WHERE datname = ${literal(database)} AND NOT rolsuper AND NOT rolreplication AND ${which}`;

const sizes = (all: boolean) => `
  SELECT database, pg_database_size(oid) AS size, "isMarked" FROM (
    SELECT d.oid, d.datname AS database, coalesce(${literal(`${MARK}=on`)} = ANY (s.setconfig), false) AS "isMarked"
    FROM pg_database d LEFT JOIN pg_db_role_setting s ON s.setdatabase = d.oid AND s.setrole = 0
    WHERE d.datallowconn AND NOT d.datistemplate
  ) databases
  WHERE ${all} OR "isMarked"
    OR oid IN (SELECT datid FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND backend_type = 'client backend')`;
