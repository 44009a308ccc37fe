/**
 * Opens the platform database, and migrates its schema at start, in one program at a time. In: a URL. Out: MikroORM,
 * from which each repository forks an entity manager.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { Migrator } from '@mikro-orm/migrations';
import { MikroORM } from '@mikro-orm/postgresql';
import { delayOf } from '@slipway/program';
import pg from 'pg';
import type { Logger } from 'pino';
import { Session } from '../accounts/session.entity.js';
import { User } from '../callers/user.entity.js';
import { Token } from '../tokens/token.entity.js';
import { migrations } from './migrations.js';

/** Id of the advisory lock, which no other code uses in this database. */
const MIGRATION_LOCK = 7_541_201;
const POOL = { min: 0, max: 10, idleTimeoutMillis: 30_000 };

const BACKOFF = { firstMs: 250, maxMs: 5_000, jitter: 0 };
/** Time in milliseconds after which a start fails; the supervisor then restarts the program. */
const PATIENCE_MS = 120_000;

/** Waits until the database accepts connections and has its role, so that programs can start in any order. */
export async function openPlatformDatabase(url: string, log: Logger): Promise<MikroORM> {
  const deadline = performance.now() + PATIENCE_MS;
  for (let attempt = 1; ; attempt++) {
    try {
      return await open(url);
    } catch (error) {
      if (!mayCome(error) || performance.now() > deadline) throw error;
      log.warn({ reason: (error as Error).message }, 'platform database not ready; tried again');
    }
    await wait(delayOf(BACKOFF, attempt));
  }
}

/**
 * SQLSTATEs after which a start tries again: connection exceptions, operator intervention, insufficient resources, and
 * a missing role or database.
 */
const SQLSTATES = /^(08|57P|53|28P01$|28000$|3D000$)/;
const SYSTEM_CODES = /^(ECONNREFUSED|ECONNRESET|ENOENT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|EPIPE|ETIMEDOUT)$/;
const MESSAGES = /Connection terminated|timeout expired|timeout exceeded/;

/** True if the database is unavailable or starting, or if its role or database has yet to be created. */
function mayCome(error: unknown): boolean {
  const { code = '', message } = error as { code?: string; message: string };
  return SQLSTATES.test(code) || SYSTEM_CODES.test(code) || MESSAGES.test(message);
}

async function open(url: string): Promise<MikroORM> {
  const { host, port, user, password, database } = connectionOf(url);
  const orm = await MikroORM.init({
    entities: [User, Session, Token],
    host,
    port,
    user,
    password,
    dbName: database,
    pool: POOL,
    driverOptions: { connectionTimeoutMillis: 5000, application_name: 'slipway-api' },
    extensions: [Migrator],
    migrations: { migrationsList: migrations, tableName: 'platform.migrations', snapshot: false, silent: true },
    ensureDatabase: false,
    discovery: { warnWhenNoEntities: false },
  });
  try {
    await migrate(orm, url);
  } catch (error) {
    await orm.close(true);
    throw error;
  }
  return orm;
}

async function migrate(orm: MikroORM, url: string): Promise<void> {
  const lock = new pg.Client({ ...connectionOf(url), connectionTimeoutMillis: 5000 });
  await lock.connect();
  try {
    await lock.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    const { rowCount } = await lock.query("select from pg_namespace where nspname = 'platform'");
    if (rowCount === 0) await lock.query('create schema platform');
    await refuseNewer(lock);
    await orm.migrator.up();
  } finally {
    await lock.end();
  }
}

/** Throws if a newer release migrated the tables: this release would read and write them wrongly. */
async function refuseNewer(client: pg.Client): Promise<void> {
  const { rows: tables } = await client.query("select to_regclass('platform.migrations') as name");
  if (tables[0].name === null) return;
  const known = migrations.map(({ name }) => name);
  const text =
    'select current_database() as database, name from platform.migrations where name <> all ($1) order by id';
  const { rows } = await client.query(text, [known]);
  if (rows.length === 0) return;
  const [{ database, name }] = rows;
  throw new Error(
    `schema platform of the database ${database} has the migration ${name}, which this release does not know: ` +
      'run the newer release that wrote it',
  );
}

/** Splits a URL into the parts that MikroORM needs. `pg` reads the folder of a Unix socket from `host` in the query. */
export function connectionOf(text: string) {
  const url = new URL(text.replace(/^(postgres(?:ql)?:\/\/[^/@]*@)\//, '$1localhost/'));
  return {
    host: url.searchParams.get('host') ?? url.hostname,
    port: Number(url.searchParams.get('port') ?? (url.port || 5432)),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
  };
}
