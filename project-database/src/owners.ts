/**
 * The group whose members are the projects' owners. It is `postgres`, as a moved app's SQL names it; only where that is
 * the superuser with which the server was made, as CloudNativePG has it, is there a group of another name, and
 * `postgres` stays out of every tenant's reach. In SQL of this package `OWNERS` stands for it; `naming` makes it the
 * server's own.
 */
import type { Session } from './session.js';

export const OWNERS = ':owners:';
export const USUAL_OWNERS_ROLE = 'postgres';
const OTHER_OWNERS_ROLE = 'slipway_owners';

/** Postgres gives it to the role that initdb makes, and to no other (pg_authid.dat). */
const BOOTSTRAP_SUPERUSER_OID = 10;

export async function ownersRole(session: Session): Promise<string> {
  const { rows } = await session.query(`SELECT rolname FROM pg_roles WHERE oid = ${BOOTSTRAP_SUPERUSER_OID}`);
  return rows[0]?.rolname === USUAL_OWNERS_ROLE ? OTHER_OWNERS_ROLE : USUAL_OWNERS_ROLE;
}

/** A session that takes SQL with OWNERS in it. */
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
