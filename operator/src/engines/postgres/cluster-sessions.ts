/**
 * Superuser sessions on the Postgres server of the tenants: a small pool in the database `postgres`, and single
 * sessions in databases that are being built. No session enters a database that a tenant has: a tenant's code there
 * would run with superuser rights.
 */
import { databaseOf, scramOnly } from '@slipway/installation';
import { BUILDING_PREFIX, literal } from '@slipway/project-database';
import pg from 'pg';
import type { Logger } from 'pino';

const CONNECTIONS = 6;
const CONNECT_TIMEOUT_MS = 10_000;
/**
 * Timeout of a query in milliseconds. It is long because DROP DATABASE waits for a checkpoint, and CREATE DATABASE for
 * the disk.
 */
const QUERY_TIMEOUT_MS = 120_000;
/**
 * Timeout of a statement at the server in milliseconds. Postgres ends a statement a little before the client stops
 * waiting. Otherwise the statement would keep running, and keep its connection.
 */
const STATEMENT_TIMEOUT_MS = QUERY_TIMEOUT_MS - 5_000;
/**
 * Milliseconds for which a statement may be blocked. Then the sessions in tenants' databases that block it are ended.
 */
const LOCK_PATIENCE_MS = 3_000;

export type Row = Record<string, unknown>;

/** A client class, as the pool creates its clients itself. */
class ScramClient extends pg.Client {
  constructor(settings?: pg.ClientConfig) {
    super(settings);
    scramOnly(this);
  }
}

export class ClusterSessions {
  readonly #pool: pg.Pool;
  /** A pool for statements that must run while every connection of the other pool waits. */
  readonly #warden: pg.Pool;
  readonly #settings: pg.ClientConfig;
  readonly #log: Logger;

  constructor(url: string, log: Logger) {
    this.#settings = {
      connectionString: withDatabase(url, 'postgres'),
      application_name: 'slipway-operator',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
      statement_timeout: STATEMENT_TIMEOUT_MS,
      // A statement that the client no longer waits for, as after a kill, ends by itself.
      options: '-c client_connection_check_interval=2s',
      // A session that outlives this process (a dropped connection, a stopped process) must not keep its locks for
      // ever.
      idle_in_transaction_session_timeout: QUERY_TIMEOUT_MS,
    };
    this.#log = log;
    this.#pool = this.#newPool(CONNECTIONS);
    this.#warden = this.#newPool(1);
  }

  #newPool(max: number): pg.Pool {
    const pool = new pg.Pool({ ...this.#settings, max, Client: ScramClient });
    // The query of a client in use reports its error. Without a listener the process would end.
    pool.on('connect', (client) => client.on('error', () => {}));
    pool.on('error', (error) => this.#log.warn({ why: error.message }, 'Postgres connection lost'));
    return pool;
  }

  /**
   * Runs `sql`. Several statements are one round trip. If a statement fails, its connection is closed, so no
   * transaction stays open.
   */
  async query(sql: string): Promise<{ rows: Row[] }> {
    const client = await this.#pool.connect();
    const waiting = setInterval(() => void this.#endBlockers(pidOf(client)), LOCK_PATIENCE_MS).unref();
    try {
      const result = await client.query<Row>(sql);
      client.release();
      return result;
    } catch (error) {
      client.release(error as Error);
      throw error;
    } finally {
      clearInterval(waiting);
    }
  }

  /**
   * Ends sessions of tenants that block the session `pid`. A tenant may open a transaction, change an object that the
   * platform must change too, and leave the transaction open.
   */
  async #endBlockers(pid: number): Promise<void> {
    try {
      const { rows } = await this.#warden.query(blockersEnded(pid));
      if (rows.length > 0) this.#log.warn({ databases: rows.map(({ datname }) => datname) }, BLOCKERS_ENDED);
    } catch (error) {
      this.#log.warn({ why: (error as Error).message }, 'harmful sessions not ended');
    }
  }

  /** Opens a superuser session in a database that is being built. */
  readonly connect = async (database: string): Promise<pg.Client> => {
    if (!database.startsWith(BUILDING_PREFIX)) throw new Error(`a superuser must not enter ${database}`);
    const connectionString = withDatabase(this.#settings.connectionString as string, database);
    const client = new ScramClient({ ...this.#settings, connectionString });
    // An error between queries also fails the next query, and is handled there.
    client.on('error', () => {});
    await client.connect();
    return client;
  };

  async close(): Promise<void> {
    await Promise.all([this.#pool.end(), this.#warden.end()]);
  }
}

const BLOCKERS_ENDED = 'sessions that blocked the platform ended';

/** pg has this member, but its types do not. */
const pidOf = (client: pg.PoolClient) => (client as unknown as { processID: number }).processID;

/** Ends the sessions that block `pid`, directly or through other sessions, and that wait for no session themselves. */
const blockersEnded = (pid: number) => `
  WITH RECURSIVE holders (pid) AS (
    SELECT unnest(pg_blocking_pids(${pid}))
    UNION SELECT blocking FROM holders, unnest(pg_blocking_pids(holders.pid)) AS blocking)
  SELECT datname, pg_terminate_backend(pid, 1000) FROM holders JOIN pg_stat_activity USING (pid)
  WHERE datname LIKE ${literal(databaseOf('%'))} AND cardinality(pg_blocking_pids(pid)) = 0`;

/** Returns `url` with another database. A `URL` object can't parse it: the host of a Unix socket is in the query. */
const withDatabase = (url: string, database: string) =>
  url.replace(/^(\w+:\/\/[^/]*\/)[^?]*/, `$1${encodeURIComponent(database)}`);
