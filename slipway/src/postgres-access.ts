/** Access to the two Postgres servers of this machine, and the settings of the platform's own. */
import { REPLICATION_ROLE } from '@slipway/crds';
import { SUPERUSER } from '@slipway/postgres';
import { type Connect, PLATFORM_DATABASE, PLATFORM_ROLES } from '@slipway/project-database';
import pg from 'pg';

const PROGRAM_ROLES = Object.values(PLATFORM_ROLES).map(({ role }) => role);

/**
 * The tenants' server. Roles of the platform log in only over the Unix socket. The database and the roles of the
 * platform's programs were here in earlier releases: only the superuser may enter, to move them.
 */
export const TENANTS_ACCESS = `
local all ${SUPERUSER} scram-sha-256
local ${PLATFORM_DATABASE} all reject
local all ${PROGRAM_ROLES.join(',')} reject
local all all scram-sha-256
host all ${[SUPERUSER, ...PROGRAM_ROLES, REPLICATION_ROLE].join(',')} all reject
host ${PLATFORM_DATABASE},postgres,template0,template1 all all reject
host all all all scram-sha-256
`;

/** The platform's own server, which has no TCP port. Everyone else is rejected. */
export const PLATFORM_ACCESS = `
local all ${SUPERUSER} scram-sha-256
local ${PLATFORM_DATABASE} ${PROGRAM_ROLES.join(',')} scram-sha-256
`;

/** The platform's server holds a few tables and serves two programs: it needs little memory and few processes. */
export const PLATFORM_SETTINGS: Record<string, string> = {
  shared_buffers: '32MB',
  // Two programs with at most 40 each, and the supervisor's.
  max_connections: '90',
  superuser_reserved_connections: '3',
  max_locks_per_transaction: '64',
  max_wal_size: '256MB',
  min_wal_size: '32MB',
  // Nobody replicates it; the log is enough for recovery and for a physical backup of the folder.
  wal_level: 'replica',
  max_wal_senders: '0',
  max_replication_slots: '0',
  // Each of these would be a process, or shared memory for one.
  io_method: 'sync',
  max_worker_processes: '0',
  max_logical_replication_workers: '0',
  max_parallel_workers: '0',
  autovacuum_max_workers: '1',
  autovacuum_worker_slots: '1',
};

/** Sessions as superuser of one server. */
export const superuserSessions =
  (server: { host: string; port: number; password: string }): Connect =>
  async (database) => {
    const client = new pg.Client({ ...server, user: SUPERUSER, database });
    // A connection that breaks outside a query says so here; the next query fails too.
    client.on('error', () => {});
    await client.connect();
    return client;
  };
