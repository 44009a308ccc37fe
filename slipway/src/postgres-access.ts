/** Access rules of the two Postgres servers of this machine, and the settings of the platform's own server. */
import { REPLICATION_ROLE } from '@slipway/installation';
import { SUPERUSER } from '@slipway/postgres';
import { type Connect, PLATFORM_DATABASE, PLATFORM_ROLES } from '@slipway/project-database';
import pg from 'pg';

const PROGRAM_ROLES = Object.values(PLATFORM_ROLES).map(({ role }) => role);

/**
 * Rules of the tenants' server. Roles of the platform log in only over the Unix socket. In earlier releases the
 * database and the roles of the platform's programs were on this server. Only the superuser may connect to it, to move
 * them.
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

/** Rules of the platform's own server, which has no TCP port. All other logins are rejected. */
export const PLATFORM_ACCESS = `
local all ${SUPERUSER} scram-sha-256
local ${PLATFORM_DATABASE} ${PROGRAM_ROLES.join(',')} scram-sha-256
`;

/** Settings for little memory and few processes: the platform's server has a few tables and two client programs. */
export const PLATFORM_SETTINGS: Record<string, string> = {
  shared_buffers: '32MB',
  // Two programs with at most 40 connections each, and the supervisor's connections.
  max_connections: '90',
  superuser_reserved_connections: '3',
  reserved_connections: '0',
  max_locks_per_transaction: '64',
  max_wal_size: '256MB',
  min_wal_size: '32MB',
  // The server has no replica. This level is enough for recovery and for a physical backup of the folder.
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

/** Returns sessions of one server's superuser. */
export const superuserSessions =
  (server: { host: string; port: number; password: string }): Connect =>
  async (database) => {
    const client = new pg.Client({ ...server, user: SUPERUSER, database });
    // A connection that breaks between two queries emits this event. The next query fails too.
    client.on('error', () => {});
    await client.connect();
    return client;
  };
