/**
 * Moves the platform's database from the tenants' Postgres, where earlier releases had it, to the platform's own. In:
 * superuser sessions on both servers. `PostgresServers` calls it at each start, before any program runs. If a start is
 * killed at any point, either the database is still in place, or a complete and durable copy has its name. The next
 * start continues from there.
 */
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { type Connect, identifier, literal, PLATFORM_DATABASE, PLATFORM_ROLES } from '@slipway/project-database';
import { copyDatabase, type OnCopied, ownersOf } from './copy-database.js';
import { StartProblem } from './problem.js';

/** Name of the copy until it is complete. */
const COPY = 'slipway_copy';
/** Name of the original database after the move, until it is dropped. */
const MOVED = 'slipway_moved';
/**
 * Name of an empty database until it is renamed to PLATFORM_DATABASE on the tenants' server. With it, an earlier
 * release refuses to start, instead of creating a new database.
 */
const PLACEHOLDER = 'slipway_placeholder';
const PLACEHOLDER_COMMENT = 'The platform has a Postgres of its own, in the folder platform-postgres.';

export interface Servers {
  /** Superuser sessions on the tenants' server. */
  tenants: Connect;
  /** Superuser sessions on the platform's own server. */
  platform: Connect;
}

/**
 * Returns true if only the tenants' server has the platform's database. Fails if neither server has it although the
 * platform's own had it. Fails also if both have one that could be in use: a copy never replaces data that an earlier
 * release may have written since.
 */
export async function mustMove(servers: Servers): Promise<boolean> {
  const state = await platformDatabaseOfTenants(servers.tenants);
  if (await exists(servers.platform, PLATFORM_DATABASE)) {
    if (state === 'data') throw twoDatabases();
    return false;
  }
  if (state !== 'placeholder') return state !== 'none';
  throw new StartProblem(
    `the folder platform-postgres of SLIPWAY_HOME holds no database "${PLATFORM_DATABASE}", ` +
      'though this home had one: restore that folder from a backup',
  );
}

/** Returns the maximum bytes that a move writes: the tables, and their write-ahead log. */
export async function bytesToMove({ tenants }: Servers): Promise<number> {
  const { rows } = await within(tenants, 'postgres', (session) =>
    session.query(`SELECT 2 * pg_database_size(${literal(PLATFORM_DATABASE)}) AS bytes`),
  );
  return Number(rows[0]?.bytes);
}

export async function movePlatformDatabase({ tenants, platform }: Servers, onCopied?: OnCopied): Promise<void> {
  await within(tenants, 'postgres', async (session) => {
    // A killed start may have closed the database.
    await session.query(`ALTER DATABASE ${PLATFORM_DATABASE} ALLOW_CONNECTIONS true`);
    await session.query(endSessions(PLATFORM_DATABASE));
  });
  const file = await within(platform, 'postgres', async (session) => {
    await session.query(`DROP DATABASE IF EXISTS ${COPY}`);
    await session.query(`CREATE DATABASE ${COPY} TEMPLATE template0`);
    const { rows } = await session.query('SHOW data_directory');
    return path.join(String(rows[0]?.data_directory), 'slipway-move');
  });
  try {
    await within(tenants, PLATFORM_DATABASE, (from) =>
      within(platform, COPY, async (to) => {
        await makeRoles(to, await ownersOf(from));
        await copyDatabase(from, to, file, onCopied);
      }),
    );
  } finally {
    await rm(file, { force: true });
  }
  await within(tenants, 'postgres', (session) =>
    session.query(`ALTER DATABASE ${PLATFORM_DATABASE} ALLOW_CONNECTIONS false`),
  );
  // The copy is committed. From here on it is the platform's database.
  await within(platform, 'postgres', (session) =>
    session.query(`ALTER DATABASE ${COPY} RENAME TO ${PLATFORM_DATABASE}`),
  );
}

const twoDatabases = () =>
  new StartProblem(
    'the folders postgres and platform-postgres of SLIPWAY_HOME each hold a database ' +
      `"${PLATFORM_DATABASE}" of the platform, and nothing was changed. ` +
      'To use the one in postgres, move the folder platform-postgres out of SLIPWAY_HOME. ' +
      'To use the one in platform-postgres, restore the folder postgres from a backup ' +
      'of the same time as platform-postgres',
  );

/**
 * Renames the database that the tenants' server still has, and reserves its name there. Called once the platform's own
 * server has the database. The renamed database stays until `dropMovedDatabase`.
 */
export async function leaveTenantsServer({ tenants, platform }: Servers): Promise<void> {
  if (!(await exists(platform, PLATFORM_DATABASE))) throw new Error('the platform has no database of its own yet');
  const state = await platformDatabaseOfTenants(tenants);
  if (state === 'data') throw twoDatabases();
  if (state === 'placeholder') return;
  await within(tenants, 'postgres', async (session) => {
    await session.query(`DROP DATABASE IF EXISTS ${PLACEHOLDER}`);
    await session.query(`CREATE DATABASE ${PLACEHOLDER} TEMPLATE template0 ALLOW_CONNECTIONS false`);
    await session.query(`COMMENT ON DATABASE ${PLACEHOLDER} IS ${literal(PLACEHOLDER_COMMENT)}`);
    await session.query(endSessions(PLATFORM_DATABASE));
    const moved = state === 'moved' ? `ALTER DATABASE ${PLATFORM_DATABASE} RENAME TO ${MOVED};` : '';
    await session.query(`BEGIN; ${moved} ALTER DATABASE ${PLACEHOLDER} RENAME TO ${PLATFORM_DATABASE}; COMMIT`);
  });
}

type Query = Awaited<ReturnType<Connect>>;

/** Drops the rest of the moved database on the tenants' server. Called after the programs have used the copy. */
export async function dropMovedDatabase({ tenants, platform }: Servers): Promise<void> {
  if (!(await exists(platform, PLATFORM_DATABASE))) throw new Error('the platform has no database of its own yet');
  await within(tenants, 'postgres', dropLeftovers);
}

async function dropLeftovers(session: Query): Promise<void> {
  const roles = Object.values(PLATFORM_ROLES).map(({ role }) => role);
  const { rows } = await session.query(`
    SELECT datname AS name, true AS is_database FROM pg_database WHERE datname = ${literal(MOVED)}
    UNION ALL SELECT rolname, false FROM pg_roles WHERE rolname IN (${roles.map(literal).join(', ')})`);
  for (const { name } of rows.filter(({ is_database }) => is_database)) {
    await session.query(`DROP DATABASE ${identifier(String(name))} WITH (FORCE)`);
  }
  for (const { name } of rows.filter(({ is_database }) => !is_database)) {
    // The server's access rules reject the role. A role to which somebody granted something stays, without a password.
    await session.query(`ALTER ROLE ${identifier(String(name))} NOLOGIN PASSWORD NULL`);
    await session.query(`DROP ROLE ${identifier(String(name))}`).catch((error: { code?: string }) => {
      if (error.code !== DEPENDENT_OBJECTS) throw error;
    });
  }
}

const DEPENDENT_OBJECTS = '2BP01';

/**
 * `moved`: a move closed the database before the copy got its name. `data`: it is open, and may be newer than any copy.
 */
async function platformDatabaseOfTenants(connect: Connect): Promise<'none' | 'data' | 'moved' | 'placeholder'> {
  const { rows } = await within(connect, 'postgres', (session) =>
    session.query(`
      SELECT shobj_description(oid, 'pg_database') AS comment, datallowconn AS is_open FROM pg_database
      WHERE datname = ${literal(PLATFORM_DATABASE)}`),
  );
  if (rows.length === 0) return 'none';
  if (rows[0]?.comment === PLACEHOLDER_COMMENT) return 'placeholder';
  return rows[0]?.is_open ? 'data' : 'moved';
}

async function exists(connect: Connect, database: string): Promise<boolean> {
  const { rows } = await within(connect, 'postgres', (session) =>
    session.query(`SELECT FROM pg_database WHERE datname = ${literal(database)}`),
  );
  return rows.length > 0;
}

/** Makes the owners of the copied objects. They get passwords when the copy is prepared. */
async function makeRoles(session: Query, names: string[]): Promise<void> {
  const { rows } = await session.query('SELECT rolname FROM pg_roles');
  const present = new Set(rows.map(({ rolname }) => rolname));
  for (const name of names) if (!present.has(name)) await session.query(`CREATE ROLE ${identifier(name)}`);
}

const endSessions = (database: string) =>
  `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = ${literal(database)}`;

async function within<T>(connect: Connect, database: string, work: (session: Query) => Promise<T>): Promise<T> {
  const session = await connect(database);
  try {
    return await work(session);
  } finally {
    await session.end();
  }
}
