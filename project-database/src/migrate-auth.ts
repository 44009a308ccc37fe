/**
 * Brings the `auth` schema up to date as `auth_admin.<id>`. A tenant may have changed the database, so no superuser
 * connects to it.
 */
import { applyMigrations } from './apply-migrations.js';
import { authMigrations, authMigrationsTable } from './auth/index.js';
import { naming } from './owners.js';
import type { Session } from './session.js';

/** In: a session of `auth_admin.<id>`. Skips migrations that ran before. Concurrent calls wait for one another. */
export async function migrateAuth(given: Session): Promise<void> {
  const session = naming(given);
  await session.query('SET search_path = auth, extensions');
  await session.query("SELECT pg_advisory_lock(hashtext('slipway auth migrations'))");
  await session.query(authMigrationsTable);
  await applyMigrations(session, 'auth', authMigrations);
  await session.query("SELECT pg_advisory_unlock(hashtext('slipway auth migrations'))");
}
