/**
 * Applies the decision of `fullness.ts` to a database that exceeds its quota. Records it in a table that no tenant can
 * access, so that it survives a restart. In: a superuser's session. Called by DatabaseSizes.
 *
 * The read-only settings and the right to log in are set on roles. The owner of a database can change the settings of
 * the database. It can change neither the settings of the data plane's roles nor whether a role may log in.
 */
import { authAdminRole, authenticatorRole, databaseIdIn, ownerRole, queryRole } from '@slipway/installation';
import { identifier, literal, type Session, transaction } from '@slipway/project-database';
import type { Fullness, ShutLevel } from './fullness.js';

/** Setting that REST reads. It distinguishes a full database from another reason for a read-only transaction. */
const MARK = 'slipway.database_full';
/** Settings that an earlier release wrote for the database itself. */
const LEGACY_SETTINGS = ['default_transaction_read_only', MARK];
const QUERY_CONNECTIONS = 8;

const dataPlaneRoles = (id: string) => [authenticatorRole(id), authAdminRole(id)];

/** Returns the roles that can't log in at the given level. */
export function shutRoles(database: string, level: ShutLevel): string[] {
  const id = databaseIdIn(database);
  const byLevel = [[ownerRole(id)], [queryRole(id)], dataPlaneRoles(id)];
  return byLevel.slice(0, level).flat();
}

export async function prepareFullDatabases(session: Session): Promise<Map<string, Fullness>> {
  await session.query(
    transaction([
      `SELECT pg_advisory_xact_lock(hashtext('slipway.full_databases'))`,
      'CREATE SCHEMA IF NOT EXISTS slipway',
      `CREATE TABLE IF NOT EXISTS slipway.full_databases (
        database text PRIMARY KEY, base int8 NOT NULL, level int NOT NULL, shuts int NOT NULL,
        shut_until int8 NOT NULL)`,
      'REVOKE ALL ON slipway.full_databases FROM PUBLIC',
      'DELETE FROM slipway.full_databases WHERE database NOT IN (SELECT datname FROM pg_database)',
    ]),
  );
  await dropLegacySettings(session);
  const { rows } = await session.query('SELECT * FROM slipway.full_databases');
  return new Map(
    rows.map(({ database, base, level, shuts, shut_until }) => [
      String(database),
      { base: Number(base), level: level as ShutLevel, shuts: Number(shuts), shutUntil: Number(shut_until) },
    ]),
  );
}

async function dropLegacySettings(session: Session): Promise<void> {
  const { rows } = await session.query(`
    SELECT datname FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase
    WHERE setrole = 0 AND ${literal(`${MARK}=on`)} = ANY (setconfig)`);
  for (const { datname } of rows) {
    const name = identifier(String(datname));
    await session.query(
      transaction(LEGACY_SETTINGS.map((setting) => `ALTER DATABASE ${name} RESET ${identifier(setting)}`)),
    );
  }
}

/** Records `full`, and allows or denies logins of the database's roles. Open sessions stay: `endSessions` ends them. */
export async function setFull(session: Session, database: string, full: Fullness, isNew: boolean): Promise<void> {
  const { base, level, shuts, shutUntil } = full;
  const id = databaseIdIn(database);
  await session.query(
    transaction([
      `INSERT INTO slipway.full_databases VALUES (${literal(database)}, ${base}, ${level}, ${shuts}, ${shutUntil})
       ON CONFLICT (database) DO UPDATE SET base = excluded.base, level = excluded.level, shuts = excluded.shuts,
         shut_until = excluded.shut_until`,
      ...(isNew ? readOnly(database) : []),
      ...(level > 0 ? [queryLogin(id)] : []),
      logins(database, level),
    ]),
  );
}

export async function setWritable(session: Session, database: string): Promise<void> {
  await session.query(
    transaction([
      `DELETE FROM slipway.full_databases WHERE database = ${literal(database)}`,
      writable(database),
      logins(database, 0),
    ]),
  );
}

/** Denies the logins again: another statement, such as the repair of a role, may have allowed them since. */
export async function keepShut(session: Session, database: string, level: ShutLevel): Promise<void> {
  await session.query(logins(database, level));
}

/**
 * For the owner the setting is only a default. It keeps apps that use `db_url` from growing the database unknowingly.
 */
const readOnly = (database: string) => [
  eachRole(database, 'ALTER ROLE %1$I IN DATABASE %2$I SET default_transaction_read_only = on'),
  eachRole(database, `ALTER ROLE %1$I IN DATABASE %2$I SET ${MARK} = on`),
];

const writable = (database: string) =>
  eachRole(
    database,
    `ALTER ROLE %1$I IN DATABASE %2$I RESET default_transaction_read_only;
    ALTER ROLE %1$I IN DATABASE %2$I RESET ${MARK}`,
  );

/** Runs `statement`, a pattern for format(), for each existing login role of the database. */
function eachRole(database: string, statement: string): string {
  const id = databaseIdIn(database);
  const names = [ownerRole(id), ...dataPlaneRoles(id)].map(literal).join(', ');
  return `DO $do$ DECLARE login text; BEGIN
    FOR login IN SELECT rolname FROM pg_roles WHERE rolname IN (${names}) LOOP
      EXECUTE format(${literal(statement)}, login, ${literal(database)});
    END LOOP; END $do$`;
}

/** Changes only logins that differ: each ALTER ROLE makes the next look for changed roles report a change. */
function logins(database: string, level: ShutLevel): string {
  const shut = shutRoles(database, level);
  const all = shutRoles(database, 3);
  const may = `rolname <> ALL (ARRAY[${shut.map(literal).join(', ')}]::text[])`;
  return `DO $do$ DECLARE login record; BEGIN
    FOR login IN SELECT rolname, ${may} AS may FROM pg_roles
      WHERE rolname IN (${all.map(literal).join(', ')}) AND rolcanlogin <> (${may})
    LOOP
      EXECUTE format('ALTER ROLE %I %s', login.rolname, CASE WHEN login.may THEN 'LOGIN' ELSE 'NOLOGIN' END);
    END LOOP; END $do$`;
}

/**
 * The login that `/query` uses for the owner while the owner's own login is shut. Its password is the authenticator's,
 * which no owner knows.
 */
function queryLogin(id: string): string {
  const [query, owner, authenticator] = [queryRole(id), ownerRole(id), authenticatorRole(id)].map(literal);
  return `DO $do$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ${query}) THEN
      EXECUTE format('CREATE ROLE %I INHERIT CONNECTION LIMIT ${QUERY_CONNECTIONS}', ${query});
      EXECUTE format('GRANT %I TO %I WITH ADMIN FALSE, INHERIT TRUE, SET TRUE', ${owner}, ${query});
      EXECUTE format('ALTER ROLE %I SET temp_file_limit = ''512MB''', ${query});
    END IF;
    EXECUTE format('ALTER ROLE %I PASSWORD %L', ${query},
      (SELECT rolpassword FROM pg_authid WHERE rolname = ${authenticator}));
  END $do$`;
}

/** Ends the sessions of tenants in the database for which the condition `which` is true. */
export async function endSessions(session: Session, database: string, which: string): Promise<void> {
  await session.query(`
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_roles ON pg_roles.oid = usesysid
    WHERE datname = ${literal(database)} AND NOT rolsuper AND NOT rolreplication AND (${which})`);
}

export const NOT_REWRITING = 'pid NOT IN (SELECT pid FROM pg_stat_progress_cluster)';
