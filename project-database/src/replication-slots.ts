/** A database that is shut for good or for a while, and slots by which tenants' changes are read: of such a one, and those that nobody reads any more. */
import { replicationSlotOf } from '@slipway/crds';
import { identifier, literal, type Session } from './session.js';

const OURS = `slot_name LIKE ${literal(`${replicationSlotOf('').replaceAll('_', '\\_')}%`)}`;

/** An owner's session that opens its database again and again, or makes a template of it, which can't be dropped, is ended at the next try. */
const TRIES = 5;

/** Nobody is in it and nobody comes in, and no slot of it is left, whose reader a removal would wait for. */
export async function shutDatabase(admin: Session, database: string): Promise<void> {
  const name = literal(database);
  // One whose DROP DATABASE was cut short (datconnlimit -2, as pg_database is documented) has no slots, and can not be altered.
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

/** Those whose reader ended without dropping them, as after a kill: each would hold a place for ever. */
export async function dropIdleReplicationSlots(admin: Session, idleSeconds: number): Promise<string[]> {
  const { rows } = await admin.query(`
    SELECT slot_name::text AS name, pg_drop_replication_slot(slot_name) FROM pg_replication_slots
    WHERE ${OURS} AND NOT active
      AND (invalidation_reason IS NOT NULL OR inactive_since <= now() - ${idleSeconds} * interval '1 second')`);
  return rows.map(({ name }) => String(name));
}
