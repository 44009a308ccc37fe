/**
 * A database of a project that is gone, whose data is retained. In: a superuser's session elsewhere, the ref. May be cut short anywhere and is
 * done again from the start.
 */
import { databaseOf } from '@slipway/crds';
import { identifier, LOGIN_ROLES, literal, shutDatabase, transaction } from '@slipway/project-database';
import type { ClusterSessions } from './cluster-sessions.js';

/** Written as the database's comment, which an admin finds by `\l+` and by the query that docs/operations.md has. */
const RETAINED_FOR = 'slipway: retained for ';

export const retainedForIn = (comment: string | null | undefined) =>
  comment?.startsWith(RETAINED_FOR) ? comment.slice(RETAINED_FOR.length) : undefined;

/** Closed, its roles shut, and marked as the owner's. */
export async function retainDatabase(sessions: ClusterSessions, ref: string, owner: string): Promise<void> {
  await shutDatabase(sessions, databaseOf(ref));
  const names = LOGIN_ROLES.map((role) => literal(role.name(ref))).join(', ');
  const { rows } = await sessions.query(`SELECT rolname FROM pg_roles WHERE rolname IN (${names})`);
  await sessions.query(
    transaction([
      `COMMENT ON DATABASE ${identifier(databaseOf(ref))} IS ${literal(RETAINED_FOR + owner)}`,
      ...rows.map(({ rolname }) => `ALTER ROLE ${identifier(String(rolname))} NOLOGIN PASSWORD NULL`),
    ]),
  );
}
