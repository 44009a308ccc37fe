/**
 * Objects that all projects' databases share: group roles without login, and no access for PUBLIC. In: a superuser's
 * session in any database that no tenant owns. Called by the operator's engine at start; idempotent.
 */
import { API_ROLES, REPLICATION_ROLE, REST_SETTINGS } from '@slipway/crds';
import { ownersRole } from './owners.js';
import { scramVerifier } from './scram.js';
import { identifier, literal, type Session, transaction } from './session.js';

/** The group that stands for what signs users up; a moved app grants its hooks to it. */
export const AUTH_ADMINS_ROLE = 'supabase_auth_admin';

/** Owns the `auth` schema in the template, until a spare's own role takes it over. */
export const TEMPLATE_AUTH_ROLE = 'slipway_template_auth_admin';

/**
 * Names that a moved app's grants may hold. Nobody is a member, so that what is granted to them reaches no neighbour.
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
  await prepareReplicationRole(session);
  await forgetGroupSettings(session);
}

const groupAttributes = (role: string) =>
  `NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION ${role === 'service_role' ? 'BYPASSRLS' : 'NOBYPASSRLS'} PASSWORD NULL`;

/**
 * Grants owners the settings that REST reads of their database; Postgres requires a grant, as it does not know these
 * names.
 */
const ownersSettings = (owners: string) =>
  `GRANT SET ON PARAMETER ${REST_SETTINGS.map((name) => identifier(`pgrst.${name}`)).join(', ')} TO ${identifier(owners)}`;

/** It can't log in until it is given a password. */
async function prepareReplicationRole(session: Session): Promise<void> {
  const { rows } = await session.query(`SELECT FROM pg_roles WHERE rolname = ${literal(REPLICATION_ROLE)}`);
  if (rows.length === 0) await session.query(`CREATE ROLE ${identifier(REPLICATION_ROLE)} REPLICATION NOLOGIN`);
}

/** Lets the data plane's reader of changes log in with `password`. */
export async function openReplication(session: Session, password: string): Promise<void> {
  const verifier = literal(await scramVerifier(password));
  await session.query(
    `ALTER ROLE ${identifier(REPLICATION_ROLE)} WITH LOGIN REPLICATION NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD ${verifier}`,
  );
}

/** Only tenants' own databases are left alone: theirs were closed before they became theirs. */
async function closedDatabases(session: Session): Promise<string[]> {
  const { rows } = await session.query(`
    SELECT datname FROM pg_database
    WHERE datname NOT LIKE 'p-%'
      AND EXISTS (SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = 0)`);
  return rows.map((row) => `REVOKE ALL ON DATABASE ${identifier(String(row.datname))} FROM PUBLIC`);
}

/**
 * A tenant can SET ROLE to a group and then ALTER ROLE … SET on it; as it is shared, nobody else may find such
 * settings. Resolves to what was done.
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
