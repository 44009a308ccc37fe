/**
 * A database that nobody may enter while its data stays: of a suspended project, and of one that is gone and whose data is
 * retained. In: a superuser's session elsewhere, the ref. Each may be cut short anywhere and is done again from the start.
 */
import { databaseOf } from '@slipway/crds';
import { identifier, LOGIN_ROLES, literal, shutDatabase, transaction } from '@slipway/project-database';
import type { ClusterSessions } from './cluster-sessions.js';

/** Written as the database's comment, which an admin finds by `\l+` and by the query that docs/operations.md has. */
const RETAINED_FOR = 'slipway: retained for ';

export const retainedForIn = (comment: string | null | undefined) =>
  comment?.startsWith(RETAINED_FOR) ? comment.slice(RETAINED_FOR.length) : undefined;

/** Sends away who is in it, and lets nobody in; who reads its changes loses the slot, as the log is kept for no one. */
export async function closeDatabase(sessions: ClusterSessions, ref: string): Promise<void> {
  const name = literal(databaseOf(ref));
  const { rows } = await sessions.query(`
    SELECT FROM pg_database WHERE datname = ${name} AND (datallowconn
      OR EXISTS (SELECT FROM pg_stat_activity WHERE datname = ${name})
      OR EXISTS (SELECT FROM pg_replication_slots WHERE database = ${name}))`);
  if (rows.length === 0) return;
  await shutDatabase(sessions, databaseOf(ref));
}

/** Closed, its roles shut, and marked as the owner's. */
export async function retainDatabase(sessions: ClusterSessions, ref: string, owner: string): Promise<void> {
  await closeDatabase(sessions, ref);
  const names = LOGIN_ROLES.map((role) => literal(role.name(ref))).join(', ');
  const { rows } = await sessions.query(`SELECT rolname FROM pg_roles WHERE rolname IN (${names})`);
  await sessions.query(
    transaction([
      `COMMENT ON DATABASE ${identifier(databaseOf(ref))} IS ${literal(RETAINED_FOR + owner)}`,
      ...rows.map(({ rolname }) => `ALTER ROLE ${identifier(String(rolname))} NOLOGIN PASSWORD NULL`),
    ]),
  );
}
