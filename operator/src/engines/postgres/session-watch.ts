/**
 * Ends tenants' sessions that harm everybody on a shared server, a few times a second. In: a superuser's URL. Out: a
 * report of each ended session. It has one connection of its own, which it opens before the server is full: Postgres
 * keeps places for superusers. Each look reads catalogs that all databases share, and their locks need entries in the
 * lock table, which a tenant can fill. So the connection stays in one transaction, which takes these locks at its first
 * look. It is READ COMMITTED and writes nothing: between two looks it has no snapshot and no transaction id, and holds
 * back neither vacuum nor slots. Called by the server.
 */
import { databaseIdIn, ownerRole, scramOnly } from '@slipway/crds';
import { literal } from '@slipway/project-database';
import pg from 'pg';
import type { Logger } from 'pino';
import { every } from '../../runtime/every.js';
import {
  type Harm,
  type HarmReason,
  harmsOf,
  keyOf,
  type ServerLoad,
  type Stalls,
  type TenantSession,
} from './harm.js';
import { canSetPriority, type SessionCpu, SessionPriority } from './session-priority.js';

const LOOK_MS = 200;
const TIMEOUT_MS = 10_000;
/** The longest pause between two attempts while the server is unavailable. */
const LONGEST_PAUSE_MS = 5_000;

export interface EndedSession {
  database: string;
  role: string;
  reason: HarmReason;
  message: string;
}

export class SessionWatch {
  readonly #stalls: Stalls = new Map();
  /** Sessions that were told to end, and may take a moment. */
  #ending = new Set<string>();
  #queueUsage = 0;
  readonly #priority: SessionPriority | undefined;
  #client: pg.Client | undefined;
  #end: (() => void) | undefined;
  #isClosed = false;
  /** After a failure: how long the watch pauses, and until when. 0 after a look that succeeded. */
  #pause = 0;
  #pausedUntil = 0;

  constructor(
    private readonly url: string,
    private readonly accountOf: (database: string) => string | undefined,
    private readonly onEnded: (ended: EndedSession) => void,
    private readonly log: Logger,
  ) {
    if (canSetPriority(url)) this.#priority = new SessionPriority();
  }

  start(): void {
    this.#end ??= every(LOOK_MS, 'a look at the sessions of tenants', () => this.#tryToLook(), this.log);
  }

  async close(): Promise<void> {
    this.#end?.();
    this.#isClosed = true;
    await this.#client?.end().catch(() => {});
  }

  /** Logs the first failure in a row alone: a server that is away would fill the log. */
  async #tryToLook(): Promise<void> {
    if (this.#isClosed || performance.now() < this.#pausedUntil) return;
    try {
      await this.#look(await this.#connected());
      this.#pause = 0;
    } catch (error) {
      const client = this.#client;
      this.#client = undefined;
      await client?.end().catch(() => {});
      if (this.#isClosed) return;
      if (!this.#pause) this.log.warn({ why: (error as Error).message }, 'tenant sessions not watched');
      this.#pause = Math.min(this.#pause * 2 || LOOK_MS, LONGEST_PAUSE_MS);
      this.#pausedUntil = performance.now() + this.#pause;
    }
  }

  async #look(client: pg.Client): Promise<void> {
    // A transaction reads statistics once, and keeps them: each look drops what the last one kept.
    // Not as a prepared statement of the protocol, whose portal keeps its snapshot until the next look.
    const looked = 'SELECT pg_stat_clear_snapshot(); EXECUTE look';
    const results = (await client.query(looked)) as unknown as pg.QueryResult[];
    const server = results.at(-1)?.rows[0];
    const found = (server.sessions ?? []) as (TenantSession & SessionCpu)[];
    // A database that no project is known to have counts by itself.
    const sessions = found.map((each) => ({
      ...each,
      account: this.accountOf(each.database) ?? each.database,
      isOwner: each.role === ownerRole(databaseIdIn(each.database)),
    }));
    const queueUsage = Number(server.queue_usage);
    const load: ServerLoad = {
      connectionCapacity: Number(server.connection_capacity),
      lockCapacity: Number(server.lock_capacity),
      predicateLockCapacity: Number(server.predicate_capacity),
      memoryCapacity: Number(server.memory_capacity),
      temporaryFilesCapacity: Number(server.temporary_files_capacity),
      queueUsage,
      queueGrowth: queueUsage - this.#queueUsage,
      retainedWal: Number(server.retained),
      retainedWalLimit: Number(server.retained_limit),
    };
    this.#queueUsage = queueUsage;
    const present = new Set(sessions.map(keyOf));
    this.#ending = new Set([...this.#ending].filter((key) => present.has(key)));
    for (const harm of harmsOf(sessions, load, this.#stalls, performance.now())) await this.#endSession(client, harm);
    await this.#priority?.look(sessions, performance.now());
  }

  async #endSession(client: pg.Client, { session, reason }: Harm): Promise<void> {
    const { pid, startedAt, database, role } = session;
    if (this.#ending.has(keyOf(session))) return;
    await client.query(`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE pid = ${Number(pid)} AND backend_start::text = ${literal(startedAt)}`);
    this.#ending.add(keyOf(session));
    this.log.warn({ database, role, reason, locks: session.locks }, 'session ended');
    this.onEnded({ database, role, reason, message: MESSAGES[reason] });
  }

  async #connected(): Promise<pg.Client> {
    if (this.#client) return this.#client;
    const client = new pg.Client({
      connectionString: this.url,
      application_name: 'slipway-operator-watch',
      connectionTimeoutMillis: TIMEOUT_MS,
      query_timeout: TIMEOUT_MS,
    });
    scramOnly(client);
    const lost = () => {
      if (this.#client === client) this.#client = undefined;
    };
    client.on('error', lost);
    client.on('end', lost);
    try {
      await client.connect();
      await client.query(
        'SET jit = off; SET idle_in_transaction_session_timeout = 0; SET transaction_timeout = 0; ' +
          // Prepared: to plan the look took four times as long as to run it.
          `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; PREPARE look AS ${LOOK}`,
      );
      if (this.#isClosed) throw new Error('the watch was closed');
    } catch (error) {
      await client.end().catch(() => {});
      throw error;
    }
    this.#client = client;
    return client;
  }
}

const MESSAGES: Record<HarmReason, string> = {
  Connections:
    "A session was ended: the sessions of this account's projects took more than a quarter of the server's connections. " +
    'Use a pool with fewer connections, or the REST API.',
  LockTable:
    "A session was ended: the sessions of this account's projects held more than a quarter of the server's locks. " +
    'Take fewer advisory locks, or touch fewer tables and large objects in one transaction.',
  PredicateLocks:
    "A session was ended: the serializable transactions of this account's projects held more than a quarter of the " +
    "server's predicate locks. Keep them short.",
  Memory:
    "A session was ended: the sessions of this account's projects used more than a quarter of the server's memory. " +
    'Set a smaller work_mem, or run fewer large queries at once.',
  TemporaryFiles:
    "A session was ended: the sessions of this account's projects wrote too many temporary files. Sort and join fewer " +
    'rows in one query, or run fewer such queries at once.',
  NotificationQueue:
    'A session was ended: the queue of notifications was filling up. Send fewer notifications, and never stay in a ' +
    'transaction in a session that listens.',
  ReplicationBlocked:
    'A session was ended: its transaction did nothing while realtime waited for it to end. Commit transactions, or ' +
    'roll them back, before you wait.',
  WalRetained:
    'A session was ended: its transaction did nothing while the server had to keep the write-ahead log for it. Commit ' +
    'transactions, or roll them back, before you wait.',
};

/** Not by age(), which counts from the transaction's first look. */
const NEXT_XID = 'pg_snapshot_xmax(pg_current_snapshot())::text::int8';

/** From Linux' file of the process; 0 where there is none. */
export const MEMORY = `coalesce(
  substring(pg_read_file('/proc/' || a.pid || '/status', 0, 4000, true) FROM 'RssAnon:\\s*(\\d+)')::int8 * 1024, 0)`;

/**
 * Processor time in milliseconds, which Linux counts in hundredths of a second (fields 14 and 15); 0 where it does not
 * tell.
 */
export const CPU = `coalesce((
  SELECT (fields[12]::int8 + fields[13]::int8) * 10 FROM string_to_array(
    substring(pg_read_file('/proc/' || a.pid || '/stat', 0, 1000, true) FROM '.*\\) (.*)'), ' ') fields), 0)`;

/** The smaller of the machine's and the container's memory; no limit where neither is known. */
export const MEMORY_CAPACITY = `least(
  substring(pg_read_file('/proc/meminfo', 0, 200, true) FROM 'MemTotal: *(\\d+)')::float8 * 1024,
  substring(pg_read_file('/sys/fs/cgroup/memory.max', 0, 100, true) FROM '\\d+')::float8,
  'Infinity')`;

/** The lock on the queue, which each sender takes when it commits: object 0 of pg_database (1262). */
const SENDS_NOTIFICATIONS = `
  locktype = 'object' AND database = 0 AND classid = 1262 AND objid = 0 AND mode = 'AccessExclusiveLock'`;

/** Sessions of projects: in a database that tenants enter, and not a superuser's or a replication role's. */
const LOOK = `
  WITH RECURSIVE held AS (
    SELECT pid, count(*) FILTER (WHERE mode <> 'SIReadLock') AS locks,
      count(*) FILTER (WHERE mode = 'SIReadLock') AS predicate_locks,
      bool_or(${SENDS_NOTIFICATIONS}) AS sends_notifications
    FROM pg_lock_status() WHERE NOT fastpath AND pid IS NOT NULL GROUP BY pid
  ), temporary AS (
    SELECT substring(name FROM '^pgsql_tmp(\\d+)')::int AS pid, sum(size) AS bytes FROM pg_ls_tmpdir() GROUP BY 1
  ), chain AS (
    SELECT unnest(pg_blocking_pids(pid)) AS pid FROM pg_stat_activity
    WHERE backend_type = 'walsender' AND wait_event_type = 'Lock'
    UNION SELECT holder FROM chain, unnest(pg_blocking_pids(chain.pid)) holder
  ), blocked AS (
    SELECT pid FROM chain WHERE cardinality(pg_blocking_pids(pid)) = 0
  ), session AS (
    SELECT a.pid, a.backend_start::text AS "startedAt", a.datname AS database, a.usename AS role,
      coalesce(held.locks, 0) AS locks, coalesce(held.predicate_locks, 0) AS "predicateLocks",
      ${MEMORY} AS memory, ${CPU} AS cpu, coalesce(temporary.bytes, 0) AS "temporaryFiles",
      coalesce(held.sends_notifications, false) AS "sendsNotifications",
      a.xact_start IS NOT NULL AS "isInTransaction",
      coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0) AS "transactionAge",
      a.state LIKE 'idle in transaction%' AS "isIdleInTransaction",
      a.backend_xid IS NOT NULL AS "hasTransactionId",
      coalesce((((${NEXT_XID} - a.backend_xid::text::int8 + 2147483648) & 4294967295) - 2147483648)::int8, 0) AS age,
      blocked.pid IS NOT NULL AS "blocksReader",
      concat_ws(' ', a.query_start, a.state_change, c.bytes_processed, c.tuples_processed, i.phase, i.blocks_done, i.tuples_done)
        AS progress,
      c.pid IS NOT NULL OR i.pid IS NOT NULL AS "showsProgress",
      a.wait_event_type IS NOT DISTINCT FROM 'Client' AS "waitsForClient"
    FROM pg_stat_activity a
    JOIN pg_roles r ON r.oid = a.usesysid AND NOT r.rolsuper AND NOT r.rolreplication
    LEFT JOIN held ON held.pid = a.pid
    LEFT JOIN temporary ON temporary.pid = a.pid
    LEFT JOIN blocked ON blocked.pid = a.pid
    LEFT JOIN pg_stat_progress_copy c ON c.pid = a.pid
    LEFT JOIN pg_stat_progress_create_index i ON i.pid = a.pid
    WHERE a.backend_type = 'client backend' AND a.datname IS NOT NULL
  )
  SELECT (SELECT json_agg(session) FROM session) AS sessions,
    pg_notification_queue_usage() AS queue_usage,
    current_setting('max_connections')::int AS connection_capacity,
    ${MEMORY_CAPACITY} AS memory_capacity,
    2 * CASE current_setting('max_slot_wal_keep_size') WHEN '-1' THEN 'Infinity'
      ELSE pg_size_bytes(current_setting('max_slot_wal_keep_size'))::float8 END AS temporary_files_capacity,
    (SELECT coalesce(max(confirmed_flush_lsn - restart_lsn), 0) FROM pg_replication_slots WHERE active) AS retained,
    CASE current_setting('max_slot_wal_keep_size') WHEN '-1' THEN 'Infinity'
      ELSE pg_size_bytes(current_setting('max_slot_wal_keep_size'))::float8 END AS retained_limit,
    current_setting('max_locks_per_transaction')::int * current_setting('max_connections')::int AS lock_capacity,
    current_setting('max_pred_locks_per_transaction')::int * current_setting('max_connections')::int AS predicate_capacity`;
