/**
 * How a Postgres server is set up: for many small databases, logical replication, and the memory and volume that it
 * has. Pure. In: its size. Out: settings by name, and the rules of who may log in.
 */
import { bytesOf } from './quantity.js';

export interface ServerSize {
  memory: string;
  storage: string;
  /** Many projects share it. */
  shared: boolean;
}

const MEBI = 2 ** 20;
const GIBI = 2 ** 30;
const PAGE = 8192;
/**
 * Memory of a connection that has read its catalogs: 3.4 MB of its own and 0.6 MB of page tables were measured, plus
 * some for its work.
 */
const CONNECTION = 5 * MEBI;
/** Memory of the server beside its buffers. */
const SERVER = 48 * MEBI;
const LEAST_CONNECTIONS = 20;

export function parametersOf({ memory, storage, shared }: ServerSize): Record<string, string> {
  const volume = bytesOf(storage);
  const buffers = Math.max(bytesOf(memory) / 4, 16 * MEBI);
  // More than fit into its memory, and all of them would end together with the one that the kernel kills.
  const fitting = Math.max(Math.floor((bytesOf(memory) - buffers - SERVER) / CONNECTION), LEAST_CONNECTIONS);
  const connections = Math.min(fitting, shared ? 400 : 100);
  return {
    jit: 'off',
    max_connections: String(connections),
    shared_buffers: mebibytes(buffers),
    // Realtime reads changes by logical decoding; switching later would need a restart.
    wal_level: 'logical',
    // Each database that is made writes half a segment of log: zeroing every new one first takes most of that time.
    wal_init_zero: 'off',
    // What a slot holds back, and what lies between two checkpoints, must leave room for data on the volume.
    max_slot_wal_keep_size: mebibytes(Math.min(volume / 10, GIBI)),
    max_wal_size: mebibytes(Math.max(Math.min(volume / 5, 2 * GIBI), 64 * MEBI)),
    // One of each for every project whose changes somebody listens to.
    max_wal_senders: shared ? '100' : '20',
    max_replication_slots: shared ? '100' : '20',
    // A tenant's session is ended before it holds a large share of the lock table: 64, the default, fills up between
    // two looks.
    max_locks_per_transaction: shared ? '256' : '64',
    // A listener in a transaction keeps the queue for all databases, and each listener reads all of it, from memory if
    // it can.
    max_notify_queue_pages: String(Math.floor(Math.min(volume / 16, 128 * MEBI) / PAGE)),
    notify_buffers: '2MB',
    // Places that stay for the operator if tenants use up all others.
    superuser_reserved_connections: String(Math.max(3, Math.floor(connections / 40))),
    idle_replication_slot_timeout: '10min',
    password_encryption: 'scram-sha-256',
    // A statement may hold a secret: no part of it is logged, not even of a failing one.
    log_min_error_statement: 'panic',
    log_parameter_max_length_on_error: '0',
    log_statement: 'none',
    timezone: 'UTC',
    log_timezone: 'UTC',
  };
}

const mebibytes = (bytes: number) => `${Math.floor(bytes / MEBI)}MB`;

/**
 * Returns the rules of pg_hba.conf: the operator's superuser may log in anywhere, all others only to projects'
 * databases, and nobody without a password. Logical replication names a database, so the rule `replication`, which is
 * for physical replication, rejects anyone who would stream everything.
 */
export const accessRules = (superuser: string): string[] => [
  `host all ${superuser} all scram-sha-256`,
  'host replication all all reject',
  'host /^p- all all scram-sha-256',
  'host all all all reject',
];
