/**
 * Brings the `auth` schema up to date as `auth_admin.<id>`, so that no superuser enters a database that a tenant has
 * touched.
 */
import { authMigrations, authMigrationsTable } from './auth/index.js';
import { refuseNewer } from './newer-release.js';
import { naming } from './owners.js';
import { literal, type Session, transaction } from './session.js';

/** In: a session of `auth_admin.<id>`. What ran before doesn't run again; two at a time wait for one another. */
export async function migrateAuth(given: Session): Promise<void> {
  const session = naming(given);
  await session.query('SET search_path = auth, extensions');
  await session.query("SELECT pg_advisory_lock(hashtext('slipway auth migrations'))");
  await session.query(authMigrationsTable);
  const { rows } = await session.query('SELECT version FROM auth.schema_migrations');
  const done = new Set(rows.map((row) => row.version));
  await refuseNewer(session, 'auth', authMigrations, done);
  for (const { version, sql } of authMigrations) {
    if (done.has(version)) continue;
    await session.query(transaction([sql.trim().replace(/;$/, ''), markDone(version)]));
  }
  await session.query("SELECT pg_advisory_unlock(hashtext('slipway auth migrations'))");
}

const markDone = (version: string) => `INSERT INTO auth.schema_migrations (version) VALUES (${literal(version)})`;
