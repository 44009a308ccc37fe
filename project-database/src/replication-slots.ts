/** Creates replication slots for reading tenants' changes, and drops slots without a reader. */
import { replicationSlotOf } from '@slipway/installation';
import { literal, type Session } from './session.js';

const OURS = `slot_name LIKE ${literal(`${replicationSlotOf('').replaceAll('_', '\\_')}%`)}`;

/**
 * Drops slots whose reader ended without dropping them, for example after a kill. Otherwise they would use up the
 * limit.
 */
export async function dropIdleReplicationSlots(admin: Session, idleSeconds: number): Promise<string[]> {
  const { rows } = await admin.query(`
    SELECT slot_name::text AS name, pg_drop_replication_slot(slot_name) FROM pg_replication_slots
    WHERE ${OURS} AND NOT active
      AND (invalidation_reason IS NOT NULL OR inactive_since <= now() - ${idleSeconds} * interval '1 second')`);
  return rows.map(({ name }) => String(name));
}
