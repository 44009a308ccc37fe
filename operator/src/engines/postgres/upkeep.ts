/**
 * Maintenance of a server at intervals, as no event tells when it is needed. In: a superuser's sessions. Called by the
 * server.
 */
import { dropGoneRoles, dropIdleReplicationSlots, forgetGroupSettings } from '@slipway/project-database';
import type { Logger } from 'pino';
import { every } from '../../runtime/every.js';
import type { ClusterSessions } from './cluster-sessions.js';

const SLOTS_MS = 60_000;
/** The same as Postgres' idle_replication_slot_timeout, after which it invalidates a slot. */
const SLOT_IDLE_SECONDS = 600;
const GONE_ROLES_MS = 600_000;
/** PostgREST reads the settings of the groups when it starts or reloads, and gives them to each transaction. */
const SETTINGS_MS = 10_000;

/** Until what is returned is called. */
export function startUpkeep(sessions: ClusterSessions, log: Logger): () => void {
  const ends = [
    every(SLOTS_MS, 'dropping replication slots that nobody reads', () => dropSlots(sessions, log), log),
    every(GONE_ROLES_MS, 'dropping roles of projects that are gone', () => dropGoneRoles(sessions), log),
    every(SETTINGS_MS, 'a look for settings of shared roles', () => forgetSettings(sessions, log), log),
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
  if (statements.length > 0) log.warn({ statements }, 'settings of a project on shared roles removed');
}
