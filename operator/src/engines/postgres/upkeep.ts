/**
 * Maintenance of a server at intervals, for conditions that no event reports. In: a superuser's sessions. Called by the
 * server.
 */
import { dropGoneRoles, dropIdleReplicationSlots, forgetGroupSettings } from '@slipway/project-database';
import type { Logger } from 'pino';
import { every } from '../../runtime/every.js';
import type { ClusterSessions } from './cluster-sessions.js';

const SLOTS_MS = 60_000;
/** Value in seconds of Postgres' idle_replication_slot_timeout, after which Postgres invalidates a slot. */
const SLOT_IDLE_SECONDS = 600;
const GONE_ROLES_MS = 600_000;
/**
 * Milliseconds between checks for settings on group roles. PostgREST reads these settings when it starts or reloads,
 * and applies them to each transaction.
 */
const SETTINGS_MS = 10_000;

/** Starts the maintenance. Returns a function that stops it. */
export function startUpkeep(sessions: ClusterSessions, log: Logger): () => void {
  const ends = [
    every(SLOTS_MS, 'dropping unused replication slots', () => dropSlots(sessions, log), log),
    every(GONE_ROLES_MS, 'dropping roles of deleted projects', () => dropGoneRoles(sessions), log),
    every(SETTINGS_MS, 'looking for settings on shared roles', () => forgetSettings(sessions, log), log),
  ];
  return () => {
    for (const end of ends) end();
  };
}

/** Drops replication slots that a killed data plane left behind. */
async function dropSlots(sessions: ClusterSessions, log: Logger): Promise<void> {
  const slots = await dropIdleReplicationSlots(sessions, SLOT_IDLE_SECONDS);
  if (slots.length > 0) log.info({ slots }, 'unused replication slots dropped');
}

async function forgetSettings(sessions: ClusterSessions, log: Logger): Promise<void> {
  const statements = await forgetGroupSettings(sessions);
  if (statements.length > 0) log.warn({ statements }, 'settings on shared roles removed');
}
