/**
 * A database that is closed, for good or for a while, to all but who will drop or open it. Called by removals and by
 * the operator.
 */
import { identifier, literal, type Session } from './session.js';

/**
 * An owner's session that opens its database again and again, or makes a template of it, which can't be dropped, is
 * ended at the next try.
 */
const TRIES = 5;

/** Nobody is in it and nobody comes in, and no slot of it is left, whose reader a removal would wait for. */
export async function shutDatabase(admin: Session, database: string): Promise<void> {
  const name = literal(database);
  // One whose DROP DATABASE was cut short (datconnlimit -2, as pg_database is documented) has no slots, and can not be
  // altered.
  const isWhole = `FROM pg_database WHERE datname = ${name} AND datconnlimit <> -2`;
  for (let tries = 0; tries < TRIES; tries++) {
    const { rows } = await admin.query(`
      SELECT datallowconn OR datistemplate OR EXISTS (SELECT FROM pg_stat_activity WHERE datname = ${name}) AS open ${isWhole}`);
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
