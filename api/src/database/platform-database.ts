/**
 * The platform database: its connections, and its schema brought up to date at start, by one program at a time.
 * In: a URL. Out: MikroORM, of which each repository forks its own entity manager.
 */
import { Migrator } from '@mikro-orm/migrations';
import { MikroORM } from '@mikro-orm/postgresql';
import pg from 'pg';
import { User } from '../accounts/user.entity.js';
import { Token } from '../tokens/token.entity.js';
import { migrations } from './migrations.js';

/** Any number that nothing else in this database locks. */
const MIGRATION_LOCK = 7_541_201;
const POOL = { min: 0, max: 10, idleTimeoutMillis: 30_000 };

export async function openPlatformDatabase(url: string): Promise<MikroORM> {
  const { host, port, user, password, database } = connectionOf(url);
  const orm = await MikroORM.init({
    entities: [User, Token],
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
  const lock = new pg.Client(connectionOf(url));
  await lock.connect();
  try {
    await lock.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    const { rowCount } = await lock.query("select from pg_namespace where nspname = 'platform'");
    if (rowCount === 0) await lock.query('create schema platform');
    await orm.migrator.up();
  } finally {
    await lock.end();
  }
}

/** `pg` reads the folder of a Unix socket from `host` in the query of a URL; MikroORM wants each part. */
function connectionOf(text: string) {
  const url = new URL(text.replace(/^(postgres(?:ql)?:\/\/[^/@]*@)\//, '$1localhost/'));
  return {
    host: url.searchParams.get('host') ?? url.hostname,
    port: Number(url.searchParams.get('port') ?? (url.port || 5432)),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
  };
}
