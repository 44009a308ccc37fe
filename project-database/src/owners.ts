/**
 * The group of all projects' owners. Its usual name is `postgres`, the name in a moved app's SQL. If `postgres` is the
 * server's bootstrap superuser, as with CloudNativePG, the group has another name, and no tenant can become `postgres`.
 * SQL of this package contains the placeholder `OWNERS`, which `naming` replaces by the server's name of the group.
 */
import type { Session } from './session.js';

export const OWNERS = ':owners:';
export const USUAL_OWNERS_ROLE = 'postgres';
const OTHER_OWNERS_ROLE = 'slipway_owners';

/** Postgres assigns this oid only to the role that initdb makes (pg_authid.dat). */
const BOOTSTRAP_SUPERUSER_OID = 10;

export async function ownersRole(session: Session): Promise<string> {
  const { rows } = await session.query(`SELECT rolname FROM pg_roles WHERE oid = ${BOOTSTRAP_SUPERUSER_OID}`);
  return rows[0]?.rolname === USUAL_OWNERS_ROLE ? OTHER_OWNERS_ROLE : USUAL_OWNERS_ROLE;
}

/** Returns a session that accepts SQL with the placeholder OWNERS. */
export function naming(session: Session): Session {
  let owners: Promise<string> | undefined;
  return {
    async query(sql) {
      if (!sql.includes(OWNERS)) return session.query(sql);
      owners ??= ownersRole(session).catch((error) => {
        owners = undefined;
        throw error;
      });
      return session.query(sql.replaceAll(OWNERS, await owners));
    },
  };
}
