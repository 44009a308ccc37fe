/** The state of a project's database and roles, seen from outside of it, and the statements that repair it. */
import { databaseOf, REPLICATION_ROLE } from '@slipway/crds';
import {
  createRole,
  grantGroups,
  identifier,
  LOGIN_ROLES,
  type LoginRole,
  literal,
  type ProjectPasswords,
  roleAttributes,
  type Session,
  scramVerifier,
  verifierMatches,
} from '@slipway/project-database';

/** `drift`: what had changed, in words. Each statement may run outside of the project's database. */
export interface Repair {
  drift: string;
  statements: string[];
}

export interface ObservedRole {
  role: LoginRole;
  verifier: string | null;
  asItShouldBe: boolean;
}

export interface Observed {
  exists: boolean;
  /** Whether it takes connections at all. */
  open: boolean;
  /** For its own roles alone, with no limit of its own. */
  accessAsItShouldBe: boolean;
  roles: ObservedRole[];
}

/** In: a session by `naming`. */
export async function observe(session: Session, databaseId: string): Promise<Observed> {
  const names = LOGIN_ROLES.map((role) => literal(role.name(databaseId))).join(', ');
  const groups = LOGIN_ROLES.map(
    (role) => `WHEN ${literal(role.name(databaseId))} THEN ARRAY[${role.groups.map(literal).join(', ')}]`,
  ).join(' ');
  const { rows } = await session.query(`
    SELECT datname AS name, true AS is_database, NULL AS verifier,
      datconnlimit = -1 AND NOT datistemplate AND NOT EXISTS (
        SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba)))
        WHERE grantee NOT IN (SELECT oid FROM pg_roles WHERE rolname IN (${names}, ${literal(REPLICATION_ROLE)})))
        AND NOT EXISTS (
          SELECT FROM pg_roles WHERE rolname IN (${names}, ${literal(REPLICATION_ROLE)})
            AND NOT has_database_privilege(pg_roles.oid, pg_database.oid, 'CONNECT')) AS good,
      datallowconn::int AS connections, datallowconn AS logs_in
    FROM pg_database WHERE datname = ${literal(databaseOf(databaseId))}
    UNION ALL
    SELECT rolname, false, rolpassword,
      rolcanlogin AND NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)
        AND coalesce(rolvaliduntil, 'infinity') = 'infinity'
        AND (CASE rolname ${groups} END) <@ ARRAY(
          SELECT granted.rolname::text FROM pg_auth_members
          JOIN pg_roles AS granted ON granted.oid = roleid WHERE member = pg_authid.oid),
      rolconnlimit, rolcanlogin
    FROM pg_authid WHERE rolname IN (${names})`);
  const database = rows.find((row) => row.is_database);
  const roles = LOGIN_ROLES.flatMap((role) => {
    const row = rows.find(({ name, is_database }) => !is_database && name === role.name(databaseId));
    if (!row) return [];
    const asItShouldBe = row.good === true && row.connections === role.connectionLimit;
    return [{ role, verifier: row.verifier as string | null, asItShouldBe }];
  });
  return {
    exists: database !== undefined,
    open: database?.logs_in === true,
    accessAsItShouldBe: database?.good === true,
    roles,
  };
}

/** Whether they were made with these passwords: nobody but the project that they are of has them. */
export async function isOf(observed: Observed, passwords: ProjectPasswords): Promise<boolean> {
  const matches = await Promise.all(
    observed.roles.map(({ role, verifier }) => verifierMatches(verifier, passwords[role.part])),
  );
  return matches.includes(true);
}

/**
 * Returns the repairs of drift; none if all is well. `open`: the database accepts connections; otherwise that is left
 * as it is.
 */
export async function repairs(
  databaseId: string,
  observed: Observed,
  passwords: ProjectPasswords,
  open: boolean,
): Promise<Repair[]> {
  const isAsItShouldBe = observed.accessAsItShouldBe && (observed.open || !open);
  const drift = `the access to database ${databaseOf(databaseId)}, which was changed`;
  const access = isAsItShouldBe ? [] : [{ drift, statements: restrictDatabase(databaseId, open) }];
  const roles = LOGIN_ROLES.map(async (role) => {
    const found = observed.roles.find((candidate) => candidate.role === role);
    return repairRole(databaseId, role, found, passwords[role.part]);
  });
  return [...access, ...(await Promise.all(roles)).flat()];
}

/**
 * Ends the owner's sessions if its password is to be another and they hold all connection slots of the role: they may
 * be a former owner's, and nobody else could connect. The role can't log in until `repairs` gives it the password, so
 * that a death in between is found by the next reconcile.
 */
export async function freeOwnersSlots(
  session: Session,
  databaseId: string,
  observed: Observed,
  password: string,
): Promise<void> {
  const owner = observed.roles.find(({ role }) => role.part === 'owner');
  if (!owner || (await verifierMatches(owner.verifier, password))) return;
  const name = owner.role.name(databaseId);
  const { rows } = await session.query(`SELECT FROM pg_roles WHERE rolname = ${literal(name)} AND
    rolconnlimit BETWEEN 0 AND (SELECT count(*) FROM pg_stat_activity WHERE usename = rolname)`);
  if (rows.length === 0) return;
  await session.query(`ALTER ROLE ${identifier(name)} NOLOGIN`);
  await session.query(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = ${literal(name)}`);
}

async function repairRole(
  databaseId: string,
  role: LoginRole,
  found: ObservedRole | undefined,
  password: string,
): Promise<Repair[]> {
  if (found?.asItShouldBe && (await verifierMatches(found.verifier, password))) return [];
  const name = identifier(role.name(databaseId));
  const made = [
    ...createRole(role, databaseId),
    `GRANT CONNECT ON DATABASE ${identifier(databaseOf(databaseId))} TO ${name}`,
  ];
  const verifier = literal(await scramVerifier(password));
  const attributes = `LOGIN ${roleAttributes(role)} VALID UNTIL 'infinity' PASSWORD ${verifier}`;
  return [
    {
      drift: `the role ${role.name(databaseId)}, ${driftOf(found)}`,
      statements: [...(found ? grantGroups(role, databaseId) : made), `ALTER ROLE ${name} WITH ${attributes}`],
    },
  ];
}

function driftOf(found: ObservedRole | undefined): string {
  if (!found) return 'which was deleted';
  return found.asItShouldBe ? 'whose password was another' : 'which was changed';
}

const mayConnect = (databaseId: string) => [...LOGIN_ROLES.map((role) => role.name(databaseId)), REPLICATION_ROLE];

/**
 * An owner may open its database, put a limit on it, or make a template of it; the first two would harm what serves it,
 * the last its removal.
 */
const restrictDatabase = (databaseId: string, open: boolean) => {
  const database = identifier(databaseOf(databaseId));
  return [
    `ALTER DATABASE ${database} WITH ${open ? 'ALLOW_CONNECTIONS true ' : ''}CONNECTION LIMIT -1 IS_TEMPLATE false`,
    `DO $$ DECLARE stranger record; BEGIN
      FOR stranger IN
        SELECT DISTINCT grantee, rolname FROM pg_database
        CROSS JOIN LATERAL aclexplode(coalesce(datacl, acldefault('d', datdba)))
        LEFT JOIN pg_roles ON pg_roles.oid = grantee
        WHERE datname = ${literal(databaseOf(databaseId))}
          AND (rolname IS NULL OR rolname NOT IN (${mayConnect(databaseId).map(literal).join(', ')}))
      LOOP
        EXECUTE format('REVOKE ALL ON DATABASE %I FROM %s', ${literal(databaseOf(databaseId))},
          CASE WHEN stranger.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(stranger.rolname) END);
      END LOOP;
    END $$`,
    ...mayConnect(databaseId).map((role) => `GRANT CONNECT ON DATABASE ${database} TO ${identifier(role)}`),
  ];
};
