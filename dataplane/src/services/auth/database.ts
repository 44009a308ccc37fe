/** Connection pools of projects, as the role that owns schema `auth`. */
import { authMigrations, migrateAuth } from '@slipway/project-database';
import { MigratedPools } from '../../projects/migrated-pools.js';
import { DatabaseError } from '../../sql/errors.js';
import type { Pool } from '../../sql/pool.js';

/** Limits of a project's pool: fewer connections than the role's own limit, and enough for the project's sign-ins. */
const LIMITS = { connections: 4, statementTimeoutMs: 10_000 };
/** Maximum connections of all projects. Beyond it, idle connections of the least recently used projects are closed. */
const CONNECTIONS = 48;
const UNDEFINED_TABLE = '42P01';

export const authDatabases = (): MigratedPools =>
  new MigratedPools({
    limits: LIMITS,
    connections: CONNECTIONS,
    login: ({ authAdmin }) => authAdmin,
    migrator: ({ authAdmin }) => authAdmin,
    migrations: authMigrations,
    migrate: migrateAuth,
    applied: appliedVersions,
  });

async function appliedVersions(pool: Pool): Promise<Set<string>> {
  try {
    const rows = await pool.query<{ version: string }>('select version from auth.schema_migrations');
    return new Set(rows.map(({ version }) => version));
  } catch (error) {
    if (error instanceof DatabaseError && error.code === UNDEFINED_TABLE) return new Set();
    throw error;
  }
}
