/**
 * The schema `storage` as numbered migrations, forward only, owned by the group of owners so that a project's owner may
 * put policies on `storage.objects` and `storage.buckets`. Run at birth in the template; in older databases by the data
 * plane, as the project's owner: never with more rights than the tenant has.
 */
import type { Migration } from '../auth/index.js';
import { refuseNewer } from '../newer-release.js';
import { naming, OWNERS } from '../owners.js';
import { literal, type Session, transaction } from '../session.js';
import { tables } from './0001-tables.js';
import { functions } from './0002-functions.js';

export const storageMigrations: readonly Migration[] = [
  { version: 'slipway-0001-tables', sql: tables },
  { version: 'slipway-0002-functions', sql: functions },
];

const SCHEMA = /* sql */ `
create schema if not exists storage authorization ${OWNERS};
grant usage on schema storage to anon, authenticated, service_role`;

const VERSIONS = /* sql */ `
create table if not exists storage.schema_migrations (
  version varchar(255) not null constraint schema_migrations_pkey primary key
);
grant select on storage.schema_migrations to service_role`;

/** In: a session of the project's owner, or of a superuser in a template. Two at a time wait for one another. */
export async function migrateStorage(given: Session): Promise<void> {
  const session = naming(given);
  await session.query("SELECT pg_advisory_lock(hashtext('slipway storage migrations'))");
  await session.query(SCHEMA);
  await session.query(`SET ROLE ${OWNERS}`);
  await session.query(VERSIONS);
  const { rows } = await session.query('SELECT version FROM storage.schema_migrations');
  const done = new Set(rows.map((row) => row.version));
  await refuseNewer(session, 'storage', storageMigrations, done);
  for (const { version, sql } of storageMigrations) {
    if (done.has(version)) continue;
    const mark = `INSERT INTO storage.schema_migrations (version) VALUES (${literal(version)})`;
    await session.query(transaction([sql.trim().replace(/;$/, ''), mark]));
  }
  await session.query('RESET ROLE');
  await session.query("SELECT pg_advisory_unlock(hashtext('slipway storage migrations'))");
}
