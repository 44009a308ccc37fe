/**
 * The settings of a Postgres server for many small databases and for logical replication, fitted to its memory and
 * volume. Pure. In: the server's size. Out: settings by name, and the access rules.
 */
import { bytesOf } from './quantity.js';

export interface ServerSize {
  memory: string;
  storage: string;
  /** True if many projects share the server. */
  shared: boolean;
}

const MEBI = 2 ** 20;
const GIBI = 2 ** 30;
const PAGE = 8192;
/**
 * Memory in bytes of a connection that has read its catalogs. Measured: 3.4 MB of its own and 0.6 MB of page tables.
 * The rest is for the connection's work.
 */
const CONNECTION = 5 * MEBI;
/** Memory in bytes of the server without its buffers. */
const SERVER = 48 * MEBI;
const LEAST_CONNECTIONS = 20;

/** Minimum of the memory limit in bytes for one process of a small server: building an index takes 64 MiB. */
const LEAST_PROCESS = 96 * MEBI;
/** Number of processes with the maximum memory that fit into the server's memory together. */
const LARGE_PROCESSES = { shared: 8, own: 2 };

export function parametersOf({ memory, storage, shared }: ServerSize): Record<string, string> {
  const volume = bytesOf(storage);
  const buffers = buffersOf(memory);
  // If more connections were used than fit into memory, the kernel would kill one process, and Postgres would end all.
  const fitting = Math.max(Math.floor(memoryOfProcesses(memory) / CONNECTION), LEAST_CONNECTIONS);
  const connections = Math.min(fitting, shared ? 400 : 100);
  return {
    jit: 'off',
    max_connections: String(connections),
    shared_buffers: mebibytes(buffers),
    // Realtime reads changes by logical decoding. Switching to it later would need a restart.
    wal_level: 'logical',
    // Creating a database writes half a segment of log. Zeroing every new segment first takes most of that time.
    wal_init_zero: 'off',
    // The log that a slot retains, and the log between two checkpoints, must leave room for data on the volume.
    max_slot_wal_keep_size: mebibytes(Math.min(volume / 10, GIBI)),
    max_wal_size: mebibytes(Math.max(Math.min(volume / 5, 2 * GIBI), 64 * MEBI)),
    // Each project whose changes are read needs one of each.
    max_wal_senders: shared ? '100' : '20',
    max_replication_slots: shared ? '100' : '20',
    // They would only serve parallel queries. Their processes and shared memory are not counted where projects share a
    // server.
    ...(shared ? { max_worker_processes: '0', max_logical_replication_workers: '0' } : {}),
    // A tenant's session is ended before it has a large share of the lock table. With 64, the default, the table fills
    // up between two looks.
    max_locks_per_transaction: shared ? '256' : '64',
    // A listener in a transaction keeps the queue for all databases. Each listener reads the whole queue, from memory
    // if it fits.
    max_notify_queue_pages: String(Math.floor(Math.min(volume / 16, 32 * MEBI) / PAGE)),
    notify_buffers: '2MB',
    // Connections that are reserved for the operator if tenants use up all others.
    superuser_reserved_connections: String(Math.max(3, Math.floor(connections / 40))),
    // A quarter is reserved for the services of projects, which have pg_use_reserved_connections. Sessions of `db_url`
    // don't.
    reserved_connections: String(Math.floor(connections / 4)),
    idle_replication_slot_timeout: '10min',
    password_encryption: 'scram-sha-256',
    // A statement may contain a secret. So no part of a statement is logged, not even of a failing one.
    log_min_error_statement: 'panic',
    log_parameter_max_length_on_error: '0',
    log_statement: 'none',
    timezone: 'UTC',
    log_timezone: 'UTC',
  };
}

/**
 * Returns the bytes of memory that one process of the server may use for itself. A statement that needs more fails
 * alone. Above the container's limit the kernel would kill a process, and Postgres would then end all sessions.
 */
export function processMemory({ memory, shared }: Pick<ServerSize, 'memory' | 'shared'>): number {
  return Math.max(memoryOfProcesses(memory) / (shared ? LARGE_PROCESSES.shared : LARGE_PROCESSES.own), LEAST_PROCESS);
}

const buffersOf = (memory: string) => Math.max(bytesOf(memory) / 4, 16 * MEBI);
const memoryOfProcesses = (memory: string) => bytesOf(memory) - buffersOf(memory) - SERVER;
const mebibytes = (bytes: number) => `${Math.floor(bytes / MEBI)}MB`;

/**
 * Returns the rules of pg_hba.conf. The operator's superuser may log in to any database, all others only to projects'
 * databases, and nobody without a password. Logical replication names a database. So the rule `replication`, which is
 * for physical replication, rejects any client that would stream everything.
 */
export const accessRules = (superuser: string): string[] => [
  `host all ${superuser} all scram-sha-256`,
  'host replication all all reject',
  'host /^p- all all scram-sha-256',
  'host all all all reject',
];
