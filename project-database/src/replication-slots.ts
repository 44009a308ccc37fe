/** Slots by which tenants' changes are read: those that stand in the way of a removal, and those that nobody reads any more. */
import { replicationSlotOf } from '@slipway/crds';
import { identifier, literal, type Session } from './session.js';

const OURS = `slot_name LIKE ${literal(`${replicationSlotOf('').replaceAll('_', '\\_')}%`)}`;

/** A database can't be dropped while a slot of it is read, nor as a template, which its owner may make of it: its reader is sent away, and can't come back. */
export async function dropReplicationSlots(admin: Session, database: string): Promise<void> {
  // One whose DROP DATABASE was cut short (datconnlimit -2, as pg_database is documented) has no slots, and can not be altered.
  const isWhole = `FROM pg_database WHERE datname = ${literal(database)} AND datconnlimit <> -2`;
  const { rows } = await admin.query(`SELECT ${isWhole}`);
  if (rows.length === 0) return;
  await admin.query(`ALTER DATABASE ${identifier(database)} WITH ALLOW_CONNECTIONS false IS_TEMPLATE false`);
  const slots = `FROM pg_replication_slots WHERE database = ${literal(database)}`;
  await admin.query(`SELECT pg_terminate_backend(active_pid, 5000) ${slots} AND active`);
  await admin.query(`SELECT pg_drop_replication_slot(slot_name) ${slots}`);
}

/** Those whose reader ended without dropping them, as after a kill: each would hold a place for ever. */
export async function dropIdleReplicationSlots(admin: Session, idleSeconds: number): Promise<string[]> {
  const { rows } = await admin.query(`
    SELECT slot_name::text AS name, pg_drop_replication_slot(slot_name) FROM pg_replication_slots
    WHERE ${OURS} AND NOT active
      AND (invalidation_reason IS NOT NULL OR inactive_since <= now() - ${idleSeconds} * interval '1 second')`);
  return rows.map(({ name }) => String(name));
}
