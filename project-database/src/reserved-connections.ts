/**
 * Connections that stay free for the platform's services (`reserved_connections`), however many sessions `db_url` has.
 * In: a superuser's session. The roles of auth and of the REST API are members of Postgres' own role for these
 * connections. Owners are not.
 */
import { authAdminRole, authenticatorRole } from '@slipway/installation';
import { literal, type Session } from './session.js';

export const RESERVED_CONNECTIONS_ROLE = 'pg_use_reserved_connections';

export const grantReservedConnections = (name: string) =>
  `GRANT ${RESERVED_CONNECTIONS_ROLE} TO ${name} WITH ADMIN FALSE, INHERIT TRUE, SET FALSE`;

/** Grants reserved connections to roles that an earlier release made. */
export async function openReservedConnections(session: Session): Promise<void> {
  const isOfServices = [authenticatorRole(''), authAdminRole('')].map(
    (prefix) => `starts_with(rolname, ${literal(prefix)})`,
  );
  await session.query(`DO $$ DECLARE login record; BEGIN
    FOR login IN
      SELECT rolname FROM pg_roles
      WHERE (${isOfServices.join(' OR ')}) AND NOT pg_has_role(oid, ${literal(RESERVED_CONNECTIONS_ROLE)}, 'USAGE')
    LOOP
      EXECUTE format('${grantReservedConnections('%I')}', login.rolname);
    END LOOP;
  END $$`);
}
