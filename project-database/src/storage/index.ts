/**
 * The schema `storage` as numbered migrations, forward only. The group of owners owns it, so that a project's owner can
 * put policies on `storage.objects` and `storage.buckets`. New projects get it from the template. In older databases
 * the data plane runs the migrations as the project's owner, so never with more rights than the tenant has.
 */
import { migrateOwned } from '../apply-migrations.js';
import type { Migration } from '../auth/index.js';
import type { Session } from '../session.js';
import { tables } from './0001-tables.js';
import { functions } from './0002-functions.js';

export const storageMigrations: readonly Migration[] = [
  { version: 'slipway-0001-tables', sql: tables },
  { version: 'slipway-0002-functions', sql: functions },
];

const GRANTS = /* sql */ 'grant select on storage.schema_migrations to service_role';

export const migrateStorage = (session: Session): Promise<void> =>
  migrateOwned(session, { name: 'storage', migrations: storageMigrations, grants: GRANTS });
