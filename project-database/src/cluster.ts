/**
 * Prepares what all projects' databases on a server share: group roles without login, and no access for PUBLIC. In: a
 * superuser's session in any database that no tenant owns. The operator's engine calls it at start. It is idempotent.
 */
import { API_ROLES, REPLICATION_ROLE, REST_SETTINGS } from '@slipway/installation';
import { ownersRole } from './owners.js';
import { openReservedConnections } from './reserved-connections.js';
import { scramVerifier } from './scram.js';
import { identifier, literal, type Session, transaction } from './session.js';

/** The group of the service that signs users up. A moved app grants its auth hooks to this role. */
export const AUTH_ADMINS_ROLE = 'supabase_auth_admin';

/**
 * The role that owns the `auth` schema in the template. In a database made from the template, the database's own role
 * becomes the owner.
 */
export const TEMPLATE_AUTH_ROLE = 'slipway_template_auth_admin';

/**
 * Role names that may occur in a moved app's grants. These roles have no members, so grants to them reach no other
 * project.
 */
const UPSTREAM_ROLES = [
  'authenticator',
  'dashboard_user',
  'pgbouncer',
  'supabase_admin',
  'supabase_read_only_user',
  'supabase_realtime_admin',
  'supabase_replication_admin',
  'supabase_storage_admin',
];

const groupRoles = (owners: string) => [...API_ROLES, owners, AUTH_ADMINS_ROLE, TEMPLATE_AUTH_ROLE, ...UPSTREAM_ROLES];

export async function prepareCluster(session: Session): Promise<void> {
  const owners = await ownersRole(session);
  const groups = groupRoles(owners);
  const names = groups.map(literal).join(', ');
  const { rows } = await session.query(`SELECT rolname FROM pg_roles WHERE rolname IN (${names})`);
  const present = new Set(rows.map((row) => row.rolname));
  const missing = groups.filter((role) => !present.has(role)).map((role) => `CREATE ROLE ${identifier(role)}`);
  const attributes = groups.map((role) => `ALTER ROLE ${identifier(role)} WITH ${groupAttributes(role)}`);
  await session.query(
    transaction([...missing, ...attributes, ownersSettings(owners), ...(await closedDatabases(session))]),
  );
  await openReservedConnections(session);
  await prepareReplicationRole(session);
  await forgetGroupSettings(session);
}

const groupAttributes = (role: string) =>
  `NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION ` +
  `${role === 'service_role' ? 'BYPASSRLS' : 'NOBYPASSRLS'} PASSWORD NULL`;

/**
 * Allows owners to set the settings that REST reads from their database. Postgres requires a grant, because it does not
 * know these names.
 */
const ownersSettings = (owners: string) =>
  `GRANT SET ON PARAMETER ${REST_SETTINGS.map((name) => identifier(`pgrst.${name}`)).join(', ')} ` +
  `TO ${identifier(owners)}`;

/** Creates the role without a password, so it can't log in yet. */
async function prepareReplicationRole(session: Session): Promise<void> {
  const { rows } = await session.query(`SELECT FROM pg_roles WHERE rolname = ${literal(REPLICATION_ROLE)}`);
  if (rows.length === 0) await session.query(`CREATE ROLE ${identifier(REPLICATION_ROLE)} REPLICATION NOLOGIN`);
}

/** Allows the data plane's replication role to log in with `password`. */
export async function openReplication(session: Session, password: string): Promise<void> {
  const verifier = literal(await scramVerifier(password));
  await session.query(
    `ALTER ROLE ${identifier(REPLICATION_ROLE)} WITH LOGIN REPLICATION NOSUPERUSER NOCREATEDB NOCREATEROLE ` +
      `NOBYPASSRLS PASSWORD ${verifier}`,
  );
}

/**
 * Returns the statements that close all databases except the tenants'. Those were closed before a tenant could use
 * them.
 */
async function closedDatabases(session: Session): Promise<string[]> {
  const { rows } = await session.query(`
    SELECT datname FROM pg_database
    WHERE datname NOT LIKE 'p-%'
      AND EXISTS (SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = 0)`);
  return rows.map((row) => `REVOKE ALL ON DATABASE ${identifier(String(row.datname))} FROM PUBLIC`);
}

/**
 * Resets the settings of the shared groups, and returns the statements that it ran. A tenant can SET ROLE to a group
 * and then run ALTER ROLE … SET on it. Such settings must not apply to other tenants.
 */
export async function forgetGroupSettings(session: Session): Promise<string[]> {
  const groups = groupRoles(await ownersRole(session));
  const { rows } = await session.query(`
    SELECT format('ALTER ROLE %I %s RESET ALL', rolname, 'IN DATABASE ' || quote_ident(datname)) AS statement
    FROM pg_db_role_setting
    JOIN pg_roles ON pg_roles.oid = setrole
    LEFT JOIN pg_database ON pg_database.oid = setdatabase
    WHERE rolname IN (${groups.map(literal).join(', ')})`);
  const statements = rows.map(({ statement }) => String(statement));
  for (const statement of statements) await session.query(statement);
  return statements;
}
