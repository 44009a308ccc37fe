/**
 * Closes the database of a deleted project whose data is retained. In: a superuser's session in another database, and
 * the database id. If the call is interrupted, it runs again from the start.
 */
import { databaseOf } from '@slipway/installation';
import { identifier, LOGIN_ROLES, literal, retainRecord, shutDatabase, transaction } from '@slipway/project-database';
import type { ClusterSessions } from './cluster-sessions.js';

/** Closes the database, denies the logins of its roles, and records its owner. */
export async function retainDatabase(
  sessions: ClusterSessions,
  ref: string,
  databaseId: string,
  owner: string,
): Promise<void> {
  await shutDatabase(sessions, databaseOf(databaseId));
  const names = LOGIN_ROLES.map((role) => literal(role.name(databaseId))).join(', ');
  const { rows } = await sessions.query(`SELECT rolname FROM pg_roles WHERE rolname IN (${names})`);
  await sessions.query(
    transaction([
      retainRecord(ref, databaseId, owner),
      ...rows.map(({ rolname }) => `ALTER ROLE ${identifier(String(rolname))} NOLOGIN PASSWORD NULL`),
    ]),
  );
}
