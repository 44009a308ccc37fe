/**
 * Ends tenants' sessions that harm other tenants on a shared server. It looks a few times a second. In: a superuser's
 * URL. Out: a report of each ended session. Called by the server.
 *
 * The watch has a connection of its own, which it opens before the server is full: Postgres reserves places for
 * superusers. Each look reads catalogs that all databases share. The locks on them need entries in the lock table,
 * which a tenant can fill. So the connection stays in one transaction, which takes these locks at its first look. The
 * transaction is READ COMMITTED and writes nothing. Between two looks it has no snapshot and no transaction id, so it
 * delays neither vacuum nor slots.
 */
import { databaseIdIn, ownerRole, scramOnly } from '@slipway/installation';
import { delayOf } from '@slipway/program';
import { literal, type Session } from '@slipway/project-database';
import pg from 'pg';
import type { Logger } from 'pino';
import { every } from '../../runtime/every.js';
import {
  type Harm,
  HarmMemory,
  type HarmReason,
  harmsOf,
  keyOf,
  type ServerLoad,
  SHARE_OF_QUEUE,
  type TenantSession,
} from './harm.js';
import { NotificationQueue } from './notification-queue.js';
import { canSetPriority, type SessionCpu, SessionPriority } from './session-priority.js';
import { type Slot, SlotHolders } from './slot-holders.js';
import { WalReader } from './wal-reader.js';

const LOOK_MS = 200;
/** Maximum number of looks without a pause, while each of them ends sessions for their memory. */
const MOST_LOOKS = 3;
/** Milliseconds between readings of the log while a transaction delays a slot. */
const WRITES_MS = 2_000;
const TIMEOUT_MS = 10_000;
/** Pauses between two attempts while the server is unavailable. */
const BACKOFF = { firstMs: LOOK_MS, maxMs: 5_000, jitter: 0 };

export interface EndedSession {
  database: string;
  /** Null for autovacuum. */
  role: string | null;
  reason: HarmReason | 'WalRate';
  message: string;
}

export interface SessionWatchSettings {
  /** URL of a superuser. */
  url: string;
  /** Sessions of a superuser in the database `postgres`. */
  session: Session;
  accountOf(database: string): string | undefined;
  onEnded(ended: EndedSession): void;
  log: Logger;
  /** Returns the milliseconds of a monotonic clock. */
  now?: () => number;
}

export class SessionWatch {
  readonly #settings: SessionWatchSettings;
  readonly #now: () => number;
  readonly #holders = new SlotHolders();
  readonly #wal: WalReader;
  readonly #memory = new HarmMemory();
  /** Bytes of memory of each session at the last look. */
  #memoryBefore = new Map<string, number>();
  /** Sessions that were ended and may not have exited yet. */
  #ending = new Set<string>();
  #queue: NotificationQueue | undefined;
  readonly #priority: SessionPriority | undefined;
  #client: pg.Client | undefined;
  #end: (() => void) | undefined;
  #isClosed = false;
  /** State after failures: their number in a row, and the end of the pause. Both are reset by a look that succeeds. */
  #failures = 0;
  #pausedUntil = 0;

  constructor(settings: SessionWatchSettings) {
    this.#settings = settings;
    this.#now = settings.now ?? (() => performance.now());
    this.#wal = new WalReader(settings.session, settings.log);
    if (canSetPriority(settings.url)) this.#priority = new SessionPriority();
  }

  start(): void {
    if (this.#end) return;
    const { log } = this.#settings;
    const ends = [
      every(LOOK_MS, 'looking at the sessions of tenants', () => this.#tryToLook(), log),
      every(WRITES_MS, 'reading the writes of transactions', () => this.#readWrites(), log),
    ];
    this.#end = () => {
      for (const end of ends) end();
    };
  }

  async close(): Promise<void> {
    this.#end?.();
    this.#isClosed = true;
    await this.#client?.end().catch(() => {});
  }

  /**
   * Looks at the sessions. Logs only the first of several failures in a row: an unavailable server would fill the log.
   */
  async #tryToLook(): Promise<void> {
    if (this.#isClosed || performance.now() < this.#pausedUntil) return;
    try {
      const client = await this.#connected();
      // A session can use up memory faster than other resources. So the next look, at the remaining sessions, follows
      // at once.
      for (let looks = 0; looks < MOST_LOOKS && (await this.#look(client, looks === 0)); looks++);
      this.#failures = 0;
    } catch (error) {
      const client = this.#client;
      this.#client = undefined;
      await client?.end().catch(() => {});
      if (this.#isClosed) return;
      if (this.#failures === 0)
        this.#settings.log.warn({ why: (error as Error).message }, 'tenant sessions not watched');
      this.#failures++;
      this.#pausedUntil = performance.now() + delayOf(BACKOFF, this.#failures);
    }
  }

  async #readWrites(): Promise<void> {
    if (this.#holders.areAny) this.#holders.wrote(await this.#wal.writes(), this.#now());
    else this.#wal.pause();
  }

  /** Returns whether it ended sessions for their memory. `isFirst`: the first of several looks without a pause. */
  async #look(client: pg.Client, isFirst: boolean): Promise<boolean> {
    // A transaction caches the statistics that it reads, so each look first drops that cache. EXECUTE is sent as a
    // simple query: the portal of a prepared statement of the protocol would keep its snapshot until the next look.
    const looked = 'SELECT pg_stat_clear_snapshot(); EXECUTE look';
    const results = (await client.query(looked)) as unknown as pg.QueryResult[];
    const server = results.at(-1)?.rows[0];
    const found = (server.sessions ?? []) as (Omit<TenantSession, 'growth'> & SessionCpu)[];
    // Most looks find the queue almost empty, and don't need the unread parts of sessions.
    const unread = isFirst && server.queue_usage >= SHARE_OF_QUEUE ? await this.#queue?.unread() : undefined;
    // A database without a known project counts as an account of its own.
    const sessions = found.map((each) => ({
      ...each,
      growth: each.memory - (this.#memoryBefore.get(keyOf(each)) ?? each.memory),
      unreadNotifications: unread?.get(each.pid),
      account: this.#settings.accountOf(each.database) ?? each.database,
      isOwner: each.role === ownerRole(databaseIdIn(each.database)),
    }));
    const load: ServerLoad = {
      connectionCapacity: Number(server.connection_capacity),
      serviceCapacity: Number(server.service_capacity),
      lockCapacity: Number(server.lock_capacity),
      predicateLockCapacity: Number(server.predicate_capacity),
      memoryCapacity: Number(server.memory_capacity),
      temporaryFilesCapacity: Number(server.temporary_files_capacity),
    };
    this.#memoryBefore = new Map(sessions.map((each) => [keyOf(each), each.memory]));
    const present = new Set(sessions.map(keyOf));
    this.#ending = new Set([...this.#ending].filter((key) => present.has(key)));
    const slots = { slots: (server.slots ?? []) as Slot[], position: Number(server.log_end), limit: server.log_limit };
    const harms = [
      ...harmsOf(sessions, load, isFirst ? this.#memory : undefined),
      ...this.#holders.look(sessions, slots, this.#now()),
    ];
    const isNew = ({ session }: Harm, at: number) =>
      !this.#ending.has(keyOf(session)) && harms.findIndex((other) => other.session === session) === at;
    const newHarms = harms.filter(isNew);
    if (newHarms.length > 0) await this.#endSessions(client, newHarms);
    await this.#priority?.look(sessions, performance.now());
    return newHarms.some(({ reason }) => reason === 'Memory');
  }

  /**
   * Ends the sessions in one statement: while sessions use up memory, each round trip competes with them for a
   * processor.
   */
  async #endSessions(client: pg.Client, harms: readonly Harm[]): Promise<void> {
    const named = harms.map(({ session: { pid, startedAt }, reason }) =>
      [Number(pid), literal(startedAt), reason === 'IdleTransaction'].join(', '),
    );
    const { rows } = await client.query<{ pid: number }>(`
      SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity AS ended
      JOIN (VALUES (${named.join('), (')})) AS harm (pid, started_at, is_idle) USING (pid)
      WHERE backend_start::text = started_at AND NOT (is_idle AND ${WAITS_FOR_ANOTHER_PROJECT})`);
    const ended = new Set(rows.map(({ pid }) => pid));
    for (const { session, reason } of harms) {
      if (ended.has(session.pid)) this.#reportEnded(session, reason);
      else this.#holders.excuse(session, this.#now());
    }
  }

  #reportEnded(session: TenantSession, reason: HarmReason): void {
    const { database, role, locks } = session;
    this.#ending.add(keyOf(session));
    this.#settings.log.warn({ database, role, reason, locks }, 'session ended');
    const message = MESSAGES[reason] + (role === null && reason !== 'LongAnalyze' ? OF_AUTOVACUUM : '');
    this.#settings.onEnded({ database, role, reason, message });
  }

  async #connected(): Promise<pg.Client> {
    if (this.#client) return this.#client;
    const client = new pg.Client({
      connectionString: this.#settings.url,
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
          // Prepared, as planning the look took four times as long as running it.
          `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; PREPARE look AS ${LOOK}`,
      );
      this.#queue = await NotificationQueue.find(client);
      if (!this.#queue) this.#settings.log.warn('notification queue not watched: this needs Postgres 18 on Linux');
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
    "A session was ended: the sessions of this account's projects took more than a quarter of the connections " +
    'that the server has for db_url. Use a connection pool with fewer connections, or the REST API.',
  ServiceConnections:
    "A session of REST, auth or another service was ended: such sessions of this account's projects took more than " +
    "40 % of the server's connections. Make slow requests faster, or send fewer at once.",
  LockTable:
    "A session was ended: the sessions of this account's projects had more than a quarter of the server's locks. " +
    'Take fewer advisory locks, or touch fewer tables and large objects in one transaction.',
  PredicateLocks:
    "A session was ended: the serializable transactions of this account's projects had more than a quarter of the " +
    "server's predicate locks. Make these transactions shorter.",
  Memory:
    "A session was ended: the sessions of this account's projects used more than a quarter of the server's memory. " +
    'Set a smaller work_mem, or run fewer large queries at once.',
  TemporaryFiles:
    "A session was ended: the sessions of this account's projects wrote too many temporary files. Sort and join " +
    'fewer rows in one query, or run fewer such queries at once.',
  NotificationQueue:
    'A session was ended: it listens, and more than half of the notification queue waited for it to read. Do not ' +
    'stay in a transaction in a session that listens, and read the notifications that it receives.',
  LongAnalyze:
    'The automatic ANALYZE of a table was ended after 5 minutes, because tables of other projects wait for it. Use ' +
    'faster functions in the indexes and extended statistics of the table.',
  IdleTransaction:
    'A session was ended: its transaction delayed realtime of other projects, and wrote nothing for 60 seconds. ' +
    'Commit transactions, or roll them back, before you wait.',
  LongTransaction:
    'A session was ended: its transaction delayed realtime of other projects for 30 minutes. Commit in smaller steps.',
  WalRetained:
    'A session was ended: because of its transaction, realtime of other projects had to keep half of the write-ahead ' +
    'log that it may keep. Commit in smaller steps.',
};

const OF_AUTOVACUUM =
  ' The session was an automatic ANALYZE, which runs the functions in the indexes and extended statistics of a table.';

const WAITS_FOR_ANOTHER_PROJECT = `EXISTS (
  SELECT FROM unnest(pg_blocking_pids(ended.pid)) AS blocking (pid) JOIN pg_stat_activity AS other USING (pid)
  WHERE other.datid IS DISTINCT FROM ended.datid)`;

/** SQL for the memory of a session in bytes, from the process's file in /proc; 0 if there is no such file. */
export const MEMORY = `coalesce(
  substring(pg_read_file('/proc/' || a.pid || '/status', 0, 4000, true) FROM 'RssAnon:\\s*(\\d+)')::int8 * 1024, 0)`;

/**
 * SQL for the processor time of a session in milliseconds. Linux counts it in hundredths of a second (fields 14 and
 * 15). It is 0 if the system does not report it.
 */
export const CPU = `coalesce((
  SELECT (fields[12]::int8 + fields[13]::int8) * 10 FROM string_to_array(
    substring(pg_read_file('/proc/' || a.pid || '/stat', 0, 1000, true) FROM '.*\\) (.*)'), ' ') fields), 0)`;

/**
 * SQL for the memory in bytes of all sessions of the server, without the memory that they share. It is the smaller of
 * the machine's memory and the container's, by either version of cgroups, and infinite if neither is known.
 */
export const MEMORY_CAPACITY = `least(
  substring(pg_read_file('/proc/meminfo', 0, 200, true) FROM 'MemTotal: *(\\d+)')::float8 * 1024,
  substring(pg_read_file('/sys/fs/cgroup/memory.max', 0, 100, true) FROM '\\d+')::float8,
  substring(pg_read_file('/sys/fs/cgroup/memory/memory.limit_in_bytes', 0, 100, true) FROM '\\d+')::float8,
  'Infinity') - pg_size_bytes(current_setting('shared_memory_size'))`;

/**
 * Query for the sessions of projects: sessions in a database that tenants use, whose role is neither a superuser's nor
 * for replication, and autovacuum, whose role is null. An automatic ANALYZE runs a tenant's functions without
 * `statement_timeout`.
 */
const LOOK = `
  WITH held AS (
    SELECT pid, count(*) FILTER (WHERE mode <> 'SIReadLock') AS locks,
      count(*) FILTER (WHERE mode = 'SIReadLock') AS predicate_locks
    FROM pg_lock_status() WHERE NOT fastpath AND pid IS NOT NULL GROUP BY pid
  ), temporary AS (
    SELECT substring(name FROM '^pgsql_tmp(\\d+)')::int AS pid, sum(size) AS bytes FROM pg_ls_tmpdir() GROUP BY 1
  ), session AS (
    SELECT a.pid, a.backend_start::text AS "startedAt", a.datname AS database, a.usename AS role,
      coalesce(held.locks, 0) AS locks, coalesce(held.predicate_locks, 0) AS "predicateLocks",
      ${MEMORY} AS memory, ${CPU} AS cpu, coalesce(temporary.bytes, 0) AS "temporaryFiles",
      a.backend_xid::text AS "transactionId",
      CASE WHEN analyzing.pid IS NOT NULL THEN extract(epoch FROM clock_timestamp() - a.xact_start) * 1000 END
        AS "analyzeMs"
    FROM pg_stat_activity a
    LEFT JOIN pg_roles r ON r.oid = a.usesysid
    LEFT JOIN pg_stat_get_progress_info('ANALYZE') AS analyzing
      ON analyzing.pid = a.pid AND a.backend_type = 'autovacuum worker'
    LEFT JOIN held ON held.pid = a.pid
    LEFT JOIN temporary ON temporary.pid = a.pid
    WHERE a.datname IS NOT NULL AND (a.backend_type = 'autovacuum worker'
      OR a.backend_type = 'client backend' AND NOT r.rolsuper AND NOT r.rolreplication)
  )
  SELECT (SELECT json_agg(session) FROM session) AS sessions,
    pg_notification_queue_usage() AS queue_usage,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
      - current_setting('reserved_connections')::int AS connection_capacity,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
      AS service_capacity,
    ${MEMORY_CAPACITY} AS memory_capacity,
    2 * CASE current_setting('max_slot_wal_keep_size') WHEN '-1' THEN 'Infinity'
      ELSE pg_size_bytes(current_setting('max_slot_wal_keep_size'))::float8 END AS temporary_files_capacity,
    (SELECT json_agg(json_build_object('database', database, 'restart', restart_lsn - '0/0',
      'confirmed', coalesce(confirmed_flush_lsn, pg_current_wal_insert_lsn()) - '0/0',
      'isBeingMade', confirmed_flush_lsn IS NULL))
      FROM pg_replication_slots WHERE active AND restart_lsn IS NOT NULL) AS slots,
    pg_current_wal_insert_lsn() - '0/0' AS log_end,
    CASE current_setting('max_slot_wal_keep_size') WHEN '-1' THEN 'Infinity'
      ELSE pg_size_bytes(current_setting('max_slot_wal_keep_size'))::float8 END AS log_limit,
    current_setting('max_locks_per_transaction')::int * current_setting('max_connections')::int AS lock_capacity,
    current_setting('max_pred_locks_per_transaction')::int
      * current_setting('max_connections')::int AS predicate_capacity`;
