/**
 * Superuser sessions on the tenants' cluster: a small pool in the database `postgres`, and single ones into spares.
 * Never into a database that a tenant has: what a tenant plants there must not run with our rights.
 */
import { databaseOf, scramOnly } from '@slipway/crds';
import { BUILDING_PREFIX, literal } from '@slipway/project-database';
import pg from 'pg';
import type { Logger } from 'pino';

const CONNECTIONS = 6;
const CONNECT_TIMEOUT_MS = 10_000;
/** DROP DATABASE waits for a checkpoint, CREATE DATABASE for the disk. */
const QUERY_TIMEOUT_MS = 120_000;
/**
 * Postgres ends a statement a little before nobody waits for it any more: else it would go on, and hold its connection.
 */
const STATEMENT_TIMEOUT_MS = QUERY_TIMEOUT_MS - 5_000;
/** After it, whoever in a tenant's database holds what a statement of ours waits for is sent away. */
const LOCK_PATIENCE_MS = 3_000;

export type Row = Record<string, unknown>;

/** The pool makes its clients itself. */
class ScramClient extends pg.Client {
  constructor(settings?: pg.ClientConfig) {
    super(settings);
    scramOnly(this);
  }
}

export class ClusterSessions {
  readonly #pool: pg.Pool;
  /** For what must be done while all others wait. */
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
      // One that we no longer wait for, as after a kill, ends by itself.
      options: '-c client_connection_check_interval=2s',
      // A session that outlives us (a dropped connection, a stopped process) must not hold locks for ever.
      idle_in_transaction_session_timeout: QUERY_TIMEOUT_MS,
    };
    this.#log = log;
    this.#pool = this.#newPool(CONNECTIONS);
    this.#warden = this.#newPool(1);
  }

  #newPool(max: number): pg.Pool {
    const pool = new pg.Pool({ ...this.#settings, max, Client: ScramClient });
    // Of one that is in use: its query tells. Without a listener the process would end.
    pool.on('connect', (client) => client.on('error', () => {}));
    pool.on('error', (error) => this.#log.warn({ why: error.message }, 'Postgres connection lost'));
    return pool;
  }

  /** Several statements are one round trip. What fails leaves no transaction open behind it. */
  async query(sql: string): Promise<{ rows: Row[] }> {
    const client = await this.#pool.connect();
    const waiting = setInterval(() => void this.#sendAway(pidOf(client)), LOCK_PATIENCE_MS).unref();
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

  /** A tenant may open a transaction, change what the platform must change too, and leave it open. */
  async #sendAway(pid: number): Promise<void> {
    try {
      const { rows } = await this.#warden.query(sentAway(pid));
      if (rows.length > 0) this.#log.warn({ databases: rows.map(({ datname }) => datname) }, HELD_UP);
    } catch (error) {
      this.#log.warn({ why: (error as Error).message }, 'harmful sessions not ended');
    }
  }

  /** Into a database that is being built. */
  readonly connect = async (database: string): Promise<pg.Client> => {
    if (!database.startsWith(BUILDING_PREFIX)) throw new Error(`no superuser enters ${database}`);
    const connectionString = withDatabase(this.#settings.connectionString as string, database);
    const client = new ScramClient({ ...this.#settings, connectionString });
    // An error between queries reaches the next query as well, which is where it is handled.
    client.on('error', () => {});
    await client.connect();
    return client;
  };

  async close(): Promise<void> {
    await Promise.all([this.#pool.end(), this.#warden.end()]);
  }
}

const HELD_UP = 'sessions that held what the platform had to change were ended';

/** pg knows it, and its types do not. */
const pidOf = (client: pg.PoolClient) => (client as unknown as { processID: number }).processID;

/** Those for whom `pid` waits, at once or behind others, and who wait for nobody themselves. */
const sentAway = (pid: number) => `
  WITH RECURSIVE holders (pid) AS (
    SELECT unnest(pg_blocking_pids(${pid}))
    UNION SELECT blocking FROM holders, unnest(pg_blocking_pids(holders.pid)) AS blocking)
  SELECT datname, pg_terminate_backend(pid, 1000) FROM holders JOIN pg_stat_activity USING (pid)
  WHERE datname LIKE ${literal(databaseOf('%'))} AND cardinality(pg_blocking_pids(pid)) = 0`;

/**
 * `url` with another database; its host may be in the query, as a Unix socket's is, so that it is no URL of the web.
 */
const withDatabase = (url: string, database: string) =>
  url.replace(/^(\w+:\/\/[^/]*\/)[^?]*/, `$1${encodeURIComponent(database)}`);
