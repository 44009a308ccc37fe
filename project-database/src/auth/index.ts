/**
 * The schema `auth` as numbered migrations, forward only. Each runs once in a database, in this order, as the owner of
 * the schema. `auth.schema_migrations` lists the migrations that ran. The operator runs them in a new project, and the
 * data plane in existing ones.
 */
import { tables } from './0001-tables.js';
import { grants } from './0002-grants.js';
import { functions } from './0003-functions.js';
import { recoveryCodesAndScim } from './0004-recovery-codes-and-scim.js';

export interface Migration {
  /** The version in `auth.schema_migrations`. It never changes. */
  version: string;
  sql: string;
}

/** Creates the table of versions, before the first migration. May be repeated. */
export const authMigrationsTable = /* sql */ `
create table if not exists auth.schema_migrations (
  version varchar(255) not null constraint schema_migrations_pkey primary key
);
`;

export const authMigrations: readonly Migration[] = [
  { version: 'slipway-0001-tables', sql: tables },
  { version: 'slipway-0002-grants', sql: grants },
  { version: 'slipway-0003-functions', sql: functions },
  { version: 'slipway-0004-recovery-codes-and-scim', sql: recoveryCodesAndScim },
];
