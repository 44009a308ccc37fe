/**
 * Reads the state of a project's database and roles, from another database, and has the statements that repair drift.
 */
import { databaseOf, REPLICATION_ROLE } from '@slipway/installation';
import {
  createRole,
  grantGroups,
  identifier,
  LOGIN_ROLES,
  type LoginRole,
  literal,
  type ProjectPasswords,
  RESERVED_CONNECTIONS_ROLE,
  roleAttributes,
  type Session,
  scramVerifier,
  verifierMatches,
} from '@slipway/project-database';

/** `drift` describes the difference in words. Each statement may run in another database than the project's. */
export interface Repair {
  drift: string;
  statements: string[];
}

export interface ObservedRole {
  role: LoginRole;
  verifier: string | null;
  canLogIn: boolean;
  /** True if all but the login and the password are as they should be. */
  asItShouldBe: boolean;
}

export interface Observed {
  exists: boolean;
  /** Whether the database accepts connections at all. */
  open: boolean;
  /** True if only the project's own roles have access, and the database has no connection limit. */
  accessAsItShouldBe: boolean;
  roles: ObservedRole[];
}

/** Reads the state. `session` comes from `naming`. */
export async function observe(session: Session, databaseId: string): Promise<Observed> {
  const names = LOGIN_ROLES.map((role) => literal(role.name(databaseId))).join(', ');
  const groups = LOGIN_ROLES.map(
    (role) => `WHEN ${literal(role.name(databaseId))} THEN ARRAY[${role.groups.map(literal).join(', ')}]`,
  ).join(' ');
  const reserved = LOGIN_ROLES.filter((role) => role.usesReservedConnections).map((role) => role.name(databaseId));
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
      NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)
        AND coalesce(rolvaliduntil, 'infinity') = 'infinity'
        AND (CASE rolname ${groups} END) <@ ARRAY(
          SELECT granted.rolname::text FROM pg_auth_members
          JOIN pg_roles AS granted ON granted.oid = roleid WHERE member = pg_authid.oid)
        AND (rolname NOT IN (${reserved.map(literal).join(', ')})
          OR pg_has_role(pg_authid.oid, ${literal(RESERVED_CONNECTIONS_ROLE)}, 'USAGE')),
      rolconnlimit, rolcanlogin
    FROM pg_authid WHERE rolname IN (${names})`);
  const database = rows.find((row) => row.is_database);
  const roles = LOGIN_ROLES.flatMap((role) => {
    const row = rows.find(({ name, is_database }) => !is_database && name === role.name(databaseId));
    if (!row) return [];
    const asItShouldBe = row.good === true && row.connections === role.connectionLimit;
    const canLogIn = row.logs_in === true;
    return [{ role, verifier: row.verifier as string | null, canLogIn, asItShouldBe }];
  });
  return {
    exists: database !== undefined,
    open: database?.logs_in === true,
    accessAsItShouldBe: database?.good === true,
    roles,
  };
}

/** Whether the roles were made with these passwords. Nobody but the project that owns the roles has them. */
export async function isOf(observed: Observed, passwords: ProjectPasswords): Promise<boolean> {
  const matches = await Promise.all(
    observed.roles.map(({ role, verifier }) => verifierMatches(verifier, passwords[role.part])),
  );
  return matches.includes(true);
}

/**
 * Returns the repairs of drift; none if the state is as it should be. `open`: true if the database must accept
 * connections. If false, the present setting is left as it is. `shut`: names of roles that must not log in now.
 */
export async function repairs(
  databaseId: string,
  observed: Observed,
  passwords: ProjectPasswords,
  { open, shut }: { open: boolean; shut: readonly string[] },
): Promise<Repair[]> {
  const isAsItShouldBe = observed.accessAsItShouldBe && (observed.open || !open);
  const drift = `the access to database ${databaseOf(databaseId)}, which was changed`;
  const access = isAsItShouldBe ? [] : [{ drift, statements: restrictDatabase(databaseId, open) }];
  const roles = LOGIN_ROLES.map(async (role) => {
    const found = observed.roles.find((candidate) => candidate.role === role);
    const mayLogIn = !shut.includes(role.name(databaseId));
    return repairRole(databaseId, role, found, { password: passwords[role.part], mayLogIn });
  });
  return [...access, ...(await Promise.all(roles)).flat()];
}

/**
 * Ends the owner's sessions if its password must change and they use all connection slots of the role. The sessions may
 * be a former owner's, and nobody else could connect. The role can't log in until `repairs` sets the password. So if
 * this process dies in between, the next reconcile finds the difference.
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
  { password, mayLogIn }: { password: string; mayLogIn: boolean },
): Promise<Repair[]> {
  const isAsItShouldBe = found?.asItShouldBe && found.canLogIn === mayLogIn;
  if (isAsItShouldBe && (await verifierMatches(found.verifier, password))) return [];
  const name = identifier(role.name(databaseId));
  const made = [
    ...createRole(role, databaseId),
    `GRANT CONNECT ON DATABASE ${identifier(databaseOf(databaseId))} TO ${name}`,
  ];
  const verifier = literal(await scramVerifier(password));
  const login = mayLogIn ? 'LOGIN' : 'NOLOGIN';
  const attributes = `${login} ${roleAttributes(role)} VALID UNTIL 'infinity' PASSWORD ${verifier}`;
  return [
    {
      drift: `the role ${role.name(databaseId)}, ${driftOf(found, isAsItShouldBe === true)}`,
      statements: [...(found ? grantGroups(role, databaseId) : made), `ALTER ROLE ${name} WITH ${attributes}`],
    },
  ];
}

function driftOf(found: ObservedRole | undefined, isAsItShouldBe: boolean): string {
  if (!found) return 'which was deleted';
  return isAsItShouldBe ? 'whose password was another' : 'which was changed';
}

const mayConnect = (databaseId: string) => [...LOGIN_ROLES.map((role) => role.name(databaseId)), REPLICATION_ROLE];

/**
 * Statements that undo an owner's changes. An owner may deny connections to its database, set a connection limit, or
 * make it a template. The first two would harm the services of the project, and the last would block its removal.
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
