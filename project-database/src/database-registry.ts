/**
 * Records which project has which database on a Postgres server, in a table of a database that no tenant can connect
 * to. In: a superuser's session in that database. Every login of a server can read the names of databases and roles and
 * the comments on them. So these contain nothing that identifies a project or its owner. The operator's engine calls
 * it.
 */
import { authAdminRole, authenticatorRole, databaseOf, ownerRole, randomLetters } from '@slipway/installation';
import { identifier, literal, type Session, transaction } from './session.js';

export interface RegisteredDatabase {
  databaseId: string;
  /** False for a database with legacy names that is not in the table. */
  isRecorded: boolean;
  /** The owner whose data the database retains after the project was deleted. */
  retainedFor: string | undefined;
}

/** Prefix of a database's id. No ref has an underscore, so no project's legacy names can match another project's id. */
const ID_PREFIX = 'db_';

export const newDatabaseId = () => ID_PREFIX + randomLetters(20);

/** Beginning of the comment in which earlier releases stored the owner of a retained database. */
const LEGACY_MARK = 'slipway: retained for ';

export async function prepareRegistry(admin: Session): Promise<void> {
  await admin.query(
    transaction([
      // Two operators may start at once. Without the lock, CREATE … IF NOT EXISTS can fail then.
      `SELECT pg_advisory_xact_lock(hashtext('slipway.databases'))`,
      'CREATE SCHEMA IF NOT EXISTS slipway',
      'REVOKE ALL ON SCHEMA slipway FROM PUBLIC',
      `CREATE TABLE IF NOT EXISTS slipway.databases (
        ref text PRIMARY KEY, database_id text NOT NULL UNIQUE, retained_for text)`,
      'REVOKE ALL ON slipway.databases FROM PUBLIC',
    ]),
  );
  await takeOverLegacyMarks(admin);
}

/**
 * Moves marks of earlier releases into the table. A tenant can write any comment on its own database. So a mark counts
 * only on a database that has no record, is closed, and has an owner that can't log in. A tenant can cause neither.
 */
async function takeOverLegacyMarks(admin: Session): Promise<void> {
  const { rows } = await admin.query(`
    SELECT datname, substr(datname, ${databaseOf('').length + 1}) AS ref,
      substr(shobj_description(oid, 'pg_database'), ${LEGACY_MARK.length + 1}) AS owner
    FROM pg_database
    WHERE datname LIKE ${literal(databaseOf('%'))} AND NOT datallowconn
      AND starts_with(shobj_description(oid, 'pg_database'), ${literal(LEGACY_MARK)})
      AND NOT EXISTS (SELECT FROM pg_roles WHERE oid = datdba AND rolcanlogin)
      AND NOT EXISTS (
        SELECT FROM slipway.databases WHERE substr(datname, ${databaseOf('').length + 1}) IN (ref, database_id))`);
  for (const { datname, ref, owner } of rows) {
    await admin.query(
      transaction([
        retainRecord(String(ref), String(ref), String(owner)),
        `COMMENT ON DATABASE ${identifier(String(datname))} IS NULL`,
      ]),
    );
  }
}

/**
 * Returns the database of the project `ref`: the recorded one, or else the one with the legacy names. `isClaimAnothers`
 * is true if the id in the project's Secret is recorded for another project.
 */
export async function registeredDatabase(
  admin: Session,
  ref: string,
  claimedId: string,
): Promise<{ own: RegisteredDatabase | undefined; isClaimAnothers: boolean }> {
  const roles = [ownerRole, authenticatorRole, authAdminRole].map((role) => literal(role(ref))).join(', ');
  const { rows } = await admin.query(`
    SELECT ref, database_id, retained_for, true AS recorded FROM slipway.databases
    WHERE ref = ${literal(ref)} OR database_id = ${literal(claimedId)}
    UNION ALL
    SELECT ${literal(ref)}, ${literal(ref)}, NULL, false
    WHERE EXISTS (SELECT FROM pg_database WHERE datname = ${literal(databaseOf(ref))})
       OR EXISTS (SELECT FROM pg_roles WHERE rolname IN (${roles}))
    ORDER BY recorded DESC`);
  const own = rows.find((row) => row.ref === ref);
  return {
    own: own && {
      databaseId: String(own.database_id),
      isRecorded: own.recorded === true,
      retainedFor: own.retained_for === null ? undefined : String(own.retained_for),
    },
    isClaimAnothers: rows.some((row) => row.ref !== ref),
  };
}

/** Returns the refs of existing projects by the ids of their databases. */
export async function refsOfDatabases(
  admin: Session,
  databaseIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const ids = databaseIds.map((id) => literal(id)).join(', ');
  const { rows } = await admin.query(
    `SELECT database_id, ref FROM slipway.databases WHERE database_id IN (${ids}) AND retained_for IS NULL`,
  );
  return new Map(rows.map((row) => [String(row.database_id), String(row.ref)]));
}

/** Returns the statement that records the database of the project, without retained data. */
export const ownRecord = (ref: string, databaseId: string) => record(ref, databaseId, 'NULL');

/** Returns the statement that records the owner for whom a database is retained. */
export const retainRecord = (ref: string, databaseId: string, owner: string) => record(ref, databaseId, literal(owner));

const record = (ref: string, databaseId: string, retainedFor: string) =>
  `INSERT INTO slipway.databases AS known VALUES (${literal(ref)}, ${literal(databaseId)}, ${retainedFor})
   ON CONFLICT (ref) DO UPDATE SET database_id = excluded.database_id, retained_for = excluded.retained_for`;

export async function forgetDatabase(admin: Session, ref: string): Promise<void> {
  await admin.query(`DELETE FROM slipway.databases WHERE ref = ${literal(ref)}`);
}
