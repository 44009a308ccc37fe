/** Applies the numbered migrations of one schema, forward only. Skips migrations that ran before. */
import type { Migration } from './auth/index.js';
import { refuseNewer } from './newer-release.js';
import { naming, OWNERS } from './owners.js';
import { literal, type Session, transaction } from './session.js';

/** Runs each migration in one transaction with its row in `schema_migrations`. The caller holds a lock. */
export async function applyMigrations(
  session: Session,
  schema: string,
  migrations: readonly Migration[],
): Promise<void> {
  const { rows } = await session.query(`SELECT version FROM ${schema}.schema_migrations`);
  const done = new Set(rows.map((row) => row.version));
  await refuseNewer(session, schema, migrations, done);
  for (const { version, sql } of migrations) {
    if (done.has(version)) continue;
    const mark = `INSERT INTO ${schema}.schema_migrations (version) VALUES (${literal(version)})`;
    await session.query(transaction([sql.trim().replace(/;$/, ''), mark]));
  }
}

export interface OwnedSchema {
  name: string;
  migrations: readonly Migration[];
  /** Statements to run once the table of versions exists. */
  grants?: string;
}

/**
 * Brings a schema up to date that belongs to the group of owners. In: a session of the project's owner, or of a
 * superuser in a template. Concurrent calls wait for one another.
 */
export async function migrateOwned(given: Session, { name, migrations, grants = '' }: OwnedSchema): Promise<void> {
  const session = naming(given);
  const lock = `hashtext('slipway ${name} migrations')`;
  await session.query(`SELECT pg_advisory_lock(${lock})`);
  await session.query(/* sql */ `
create schema if not exists ${name} authorization ${OWNERS};
grant usage on schema ${name} to anon, authenticated, service_role`);
  await session.query(`SET ROLE ${OWNERS}`);
  await session.query(/* sql */ `
create table if not exists ${name}.schema_migrations (
  version varchar(255) not null constraint schema_migrations_pkey primary key
);${grants}`);
  await applyMigrations(session, name, migrations);
  await session.query('RESET ROLE');
  await session.query(`SELECT pg_advisory_unlock(${lock})`);
}
