/**
 * Closes a database, for good or for a while, except for the program that will drop or reopen it. Removals and the
 * operator call it.
 */
import { identifier, literal, type Session } from './session.js';

/**
 * Maximum number of attempts to close the database. A session of the owner may reopen its database, or mark it as a
 * template, which can't be dropped. The next attempt ends that session.
 */
const TRIES = 5;

/** Ends all sessions, prevents new ones, and drops the replication slots, whose readers a removal would wait for. */
export async function shutDatabase(admin: Session, database: string): Promise<void> {
  const name = literal(database);
  // If a DROP DATABASE was interrupted, Postgres sets datconnlimit to -2 (documented under pg_database). Such a
  // database has no slots and can't be altered.
  const isWhole = `FROM pg_database WHERE datname = ${name} AND datconnlimit <> -2`;
  for (let tries = 0; tries < TRIES; tries++) {
    const { rows } = await admin.query(`
      SELECT datallowconn OR datistemplate OR EXISTS (SELECT FROM pg_stat_activity WHERE datname = ${name}) AS open
      ${isWhole}`);
    if (rows.length === 0) return;
    if (!rows[0]?.open) break;
    await admin.query(sentAway(name));
    await admin.query(`ALTER DATABASE ${identifier(database)} WITH ALLOW_CONNECTIONS false IS_TEMPLATE false`);
    await admin.query(sentAway(name));
  }
  await admin.query(`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = ${name}`);
}

const sentAway = (name: string) =>
  `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = ${name}`;
