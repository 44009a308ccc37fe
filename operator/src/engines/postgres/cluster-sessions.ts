/**
 * Superuser sessions on the tenants' cluster: a small pool in the database `postgres`, and single ones into spares. Never
 * into a database that a tenant has: what a tenant plants there must not run with our rights.
 */
import { scramOnly } from '@slipway/crds';
import { BUILDING_PREFIX } from '@slipway/project-database';
import pg from 'pg';
import type { Logger } from 'pino';

const CONNECTIONS = 6;
const CONNECT_TIMEOUT_MS = 10_000;
/** DROP DATABASE waits for a checkpoint, CREATE DATABASE for the disk. */
const QUERY_TIMEOUT_MS = 120_000;

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
  readonly #settings: pg.ClientConfig;

  constructor(url: string, log: Logger) {
    this.#settings = {
      connectionString: withDatabase(url, 'postgres'),
      application_name: 'slipway-operator',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
      // A session that outlives us (a dropped connection, a stopped process) must not hold locks for ever.
      idle_in_transaction_session_timeout: QUERY_TIMEOUT_MS,
    };
    this.#pool = new pg.Pool({ ...this.#settings, max: CONNECTIONS, Client: ScramClient });
    // Of one that is in use: its query tells. Without a listener the process would end.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
    this.#pool.on('error', (error) => log.warn({ why: error.message }, 'a connection to Postgres broke'));
  }

  /** Several statements are one round trip. What fails leaves no transaction open behind it. */
  async query(sql: string): Promise<{ rows: Row[] }> {
    const client = await this.#pool.connect();
    try {
      const result = await client.query<Row>(sql);
      client.release();
      return result;
    } catch (error) {
      client.release(error as Error);
      throw error;
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

  close(): Promise<void> {
    return this.#pool.end();
  }
}

/** `url` with another database; its host may be in the query, as a Unix socket's is, so that it is no URL of the web. */
const withDatabase = (url: string, database: string) =>
  url.replace(/^(\w+:\/\/[^/]*\/)[^?]*/, `$1${encodeURIComponent(database)}`);
