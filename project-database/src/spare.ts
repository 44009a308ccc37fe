/**
 * Makes, assigns and drops projects' databases. All are made from a template. A spare is a database that was made in
 * advance and has no project; a new project gets a spare. In: superuser sessions in a database that no tenant owns.
 * Out: executed SQL. The operator's engine calls it, and tests that need a project's database without an operator.
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  API_ROLES,
  authAdminRole,
  authenticatorRole,
  databaseOf,
  ownerRole,
  queryRole,
  REPLICATION_ROLE,
} from '@slipway/installation';
import { authMigrations } from './auth/index.js';
import { TEMPLATE_AUTH_ROLE } from './cluster.js';
import { migrateAuth } from './migrate-auth.js';
import { naming, OWNERS, USUAL_OWNERS_ROLE } from './owners.js';
import { migrateRealtime, realtimeMigrations } from './realtime/index.js';
import { createPublication } from './realtime/publication.js';
import { createRole, LOGIN_ROLES, type ProjectPasswords } from './roles.js';
import { scramVerifier } from './scram.js';
import { identifier, literal, type Session, transaction } from './session.js';
import { shutDatabase } from './shut-database.js';
import { migrateStorage, storageMigrations } from './storage/index.js';
import { TEMPLATE_SQL } from './template.js';

/** Opens a session. The user of the session closes it. */
export type Connect = (database: string) => Promise<Session & { end(): Promise<void> }>;

export const BUILDING_PREFIX = 'slipway-building-';
export const SPARE_PREFIX = 'slipway-spare-';
export const TEMPLATE_PREFIX = 'slipway-template-';

/** Roles of a database without a project have this in place of the database id. No project's id begins like this. */
export const spareRef = (id: string) => `spare_${id}`;

/** Returns an id that begins with the version of the spare's schema, so that an upgrade recognises old spares. */
export const newSpareId = () => `${SCHEMA_VERSION}-${randomBytes(6).toString('hex')}`;

/**
 * Makes everything that the owner creates in the schema `public` available through the API, under row-level security.
 */
const defaultPrivileges = (role: string) =>
  ['TABLES', 'SEQUENCES', 'ROUTINES'].map(
    (kind) =>
      `ALTER DEFAULT PRIVILEGES FOR ROLE ${identifier(role)} IN SCHEMA public ` +
      `GRANT ALL ON ${kind} TO ${OWNERS}, ${API_ROLES.join(', ')}`,
  );

/** Statements that a superuser runs in the spare. */
const ownership = (ref: string) => [
  ...defaultPrivileges(ownerRole(ref)),
  ...defaultPrivileges(OWNERS),
  `GRANT ALL ON SCHEMA extensions TO ${identifier(ownerRole(ref))} WITH GRANT OPTION`,
  `REASSIGN OWNED BY ${TEMPLATE_AUTH_ROLE} TO ${identifier(authAdminRole(ref))}`,
  ...createPublication(ownerRole(ref)),
];

/** Closes the database except for its three roles. Nobody can connect until the last statement. */
const databaseAccess = (database: string, ref: string) => [
  `REVOKE ALL ON DATABASE ${identifier(database)} FROM PUBLIC`,
  ...[authenticatorRole(ref), authAdminRole(ref), REPLICATION_ROLE].map(
    (role) => `GRANT CONNECT ON DATABASE ${identifier(database)} TO ${identifier(role)}`,
  ),
  `ALTER DATABASE ${identifier(database)} SET search_path = "$user", public, extensions`,
  `ALTER DATABASE ${identifier(database)} ALLOW_CONNECTIONS true`,
];

/** Replaces the name of the owners' group, which the version does not depend on. */
const asUsual = (sql: string) => sql.replaceAll(OWNERS, USUAL_OWNERS_ROLE);

const SCHEMA_VERSION = createHash('sha256')
  .update(asUsual(JSON.stringify([TEMPLATE_SQL, authMigrations, realtimeMigrations, storageMigrations, LOGIN_ROLES])))
  .update(asUsual([...ownership('x'), ...databaseAccess('x', 'x')].join()))
  .digest('hex')
  .slice(0, 8);

export const TEMPLATE = `${TEMPLATE_PREFIX}${SCHEMA_VERSION}`;

/** Makes this version's template if it is missing. */
export async function ensureTemplate(admin: Session, connect: Connect): Promise<void> {
  const { rows } = await admin.query(`SELECT FROM pg_database WHERE datname = ${literal(TEMPLATE)}`);
  if (rows.length > 0) return;
  const building = `${BUILDING_PREFIX}${newSpareId()}`;
  await admin.query(`CREATE DATABASE ${identifier(building)} TEMPLATE template0 ALLOW_CONNECTIONS false`);
  await admin.query(
    transaction([
      `REVOKE ALL ON DATABASE ${identifier(building)} FROM PUBLIC`,
      `ALTER DATABASE ${identifier(building)} ALLOW_CONNECTIONS true`,
    ]),
  );
  await within(connect, building, async (session) => {
    await session.query(`BEGIN; ${TEMPLATE_SQL} CREATE SCHEMA auth AUTHORIZATION ${TEMPLATE_AUTH_ROLE}; COMMIT`);
    await migrateRealtime(session);
    await migrateStorage(session);
    await session.query(`SET SESSION AUTHORIZATION ${TEMPLATE_AUTH_ROLE}`);
    await migrateAuth(session);
  });
  await admin.query(
    transaction([
      `ALTER DATABASE ${identifier(building)} ALLOW_CONNECTIONS false IS_TEMPLATE true`,
      `ALTER DATABASE ${identifier(building)} RENAME TO ${identifier(TEMPLATE)}`,
    ]),
  );
}

/**
 * Returns a transaction that does not wait for the disk. After a crash, an unfinished spare is dropped. The transaction
 * that assigns the spare waits for the disk, which also writes everything before it.
 */
const unhurried = (statements: readonly string[]) => transaction(['SET LOCAL synchronous_commit = off', ...statements]);

/** Makes the spare `id`: a database and its three roles, which can't log in yet. */
export async function buildSpare(given: Session, connect: Connect, id: string): Promise<void> {
  const admin = naming(given);
  const ref = spareRef(id);
  const building = `${BUILDING_PREFIX}${id}`;
  await admin.query(unhurried(LOGIN_ROLES.flatMap((role) => createRole(role, ref))));
  await admin.query(
    `CREATE DATABASE ${identifier(building)} TEMPLATE ${identifier(TEMPLATE)} ` +
      `OWNER ${identifier(ownerRole(ref))} ALLOW_CONNECTIONS false`,
  );
  await admin.query(unhurried(databaseAccess(building, ref)));
  await within(connect, building, (session) => session.query(unhurried(ownership(ref))));
  await admin.query(unhurried([`ALTER DATABASE ${identifier(building)} RENAME TO ${identifier(SPARE_PREFIX + id)}`]));
}

async function within<T>(connect: Connect, database: string, work: (session: Session) => Promise<T>): Promise<T> {
  const session = await connect(database);
  try {
    return await work(naming(session));
  } finally {
    await session.end();
  }
}

/**
 * Renames the spare `id` to the names of `databaseId`, and runs the statements `also`. All is one transaction, so the
 * database either stays a spare or is complete.
 */
export async function takeSpare(
  admin: Session,
  id: string,
  databaseId: string,
  passwords: ProjectPasswords,
  also: readonly string[] = [],
): Promise<void> {
  const roles = await Promise.all(
    LOGIN_ROLES.map(async (role) => {
      const name = identifier(role.name(databaseId));
      const verifier = literal(await scramVerifier(passwords[role.part]));
      return [
        `ALTER ROLE ${identifier(role.name(spareRef(id)))} RENAME TO ${name}`,
        `ALTER ROLE ${name} WITH LOGIN PASSWORD ${verifier}`,
      ];
    }),
  );
  const rename = `ALTER DATABASE ${identifier(SPARE_PREFIX + id)} RENAME TO ${identifier(databaseOf(databaseId))}`;
  await admin.query(transaction([rename, ...roles.flat(), ...also]));
}

/** Drops `database` and the roles of `databaseId`, if they exist. */
export async function dropDatabase(admin: Session, database: string, databaseId: string): Promise<void> {
  await shutDatabase(admin, database);
  await admin.query(`DROP DATABASE IF EXISTS ${identifier(database)} WITH (FORCE)`);
  const names = [...LOGIN_ROLES.map((role) => role.name(databaseId)), queryRole(databaseId)].map(literal).join(', ');
  const { rows } = await admin.query(`SELECT rolname, oid::text FROM pg_roles WHERE rolname IN (${names})`);
  for (const { rolname, oid } of rows) await dropRole(admin, String(rolname), String(oid));
}

const DEPENDENT_OBJECTS = '2BP01';
const GONE_PREFIX = 'slipway-gone-';

/**
 * Drops a role, or renames it if it can't be dropped yet. Any tenant can grant something to another project's role in
 * the tenant's own database, where no superuser connects to revoke it. Such a role stays, without login and under a
 * name of no project, until that database is dropped too.
 */
export async function dropRole(admin: Session, name: string, oid: string): Promise<void> {
  try {
    await admin.query(`DROP ROLE IF EXISTS ${identifier(name)}`);
  } catch (error) {
    if ((error as { code?: string }).code !== DEPENDENT_OBJECTS) throw error;
    if (name.startsWith(GONE_PREFIX)) return;
    const { rows } = await admin.query(`SELECT FROM pg_database WHERE datdba = ${oid}`);
    if (rows.length > 0) throw error;
    const shut = `ALTER ROLE ${identifier(name)} WITH NOLOGIN PASSWORD NULL`;
    const renamed = `ALTER ROLE ${identifier(name)} RENAME TO ${identifier(GONE_PREFIX + oid)}`;
    await admin.query(transaction([shut, renamed]));
  }
}

/** Drops roles of deleted projects that no longer have grants. */
export async function dropGoneRoles(admin: Session): Promise<void> {
  const { rows } = await admin.query(
    `SELECT rolname, oid::text FROM pg_roles WHERE rolname LIKE ${literal(`${GONE_PREFIX}%`)}`,
  );
  for (const { rolname, oid } of rows) await dropRole(admin, String(rolname), String(oid));
}
