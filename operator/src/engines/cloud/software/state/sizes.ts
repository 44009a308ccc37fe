/** The share of a machine's memory and connections that each program may use. */

export interface MachineSize {
  cores: number;
  memoryGb: number;
}

const MB_OF_GB = 1024;
const CONNECTIONS_AT_LEAST = 60;
const CONNECTIONS_OF_GB = 20;
const MOST_CONNECTIONS = 300;
const WORK_MB_AT_LEAST = 4;
const MOST_MAINTENANCE_MB = 1024;

/** Settings of Postgres that depend on the machine. */
export function postgresSizes({ cores, memoryGb }: MachineSize) {
  const memory = memoryGb * MB_OF_GB;
  const connections = Math.min(MOST_CONNECTIONS, CONNECTIONS_AT_LEAST + CONNECTIONS_OF_GB * memoryGb);
  return {
    max_connections: connections,
    shared_buffers: `${Math.floor(memory / 4)}MB`,
    effective_cache_size: `${Math.floor(memory / 2)}MB`,
    // Each sort of each connection may use it.
    work_mem: `${Math.max(WORK_MB_AT_LEAST, Math.floor(memory / 4 / connections))}MB`,
    maintenance_work_mem: `${Math.min(MOST_MAINTENANCE_MB, Math.floor(memory / 16))}MB`,
    max_worker_processes: Math.max(8, cores),
    max_parallel_workers: cores,
    max_parallel_workers_per_gather: Math.max(1, Math.floor(cores / 2)),
  };
}

/** Connections to Postgres that pgbouncer may open. The others are for the services. */
export const pooledConnections = (size: MachineSize) => Math.floor(postgresSizes(size).max_connections / 2);

const SHARES = { postgres: 0.6, pgbouncer: 0.08, nginx: 0.1, service: 0.15, functions: 0.3 };
const MEMORY_AT_LEAST_MB = 128;

/**
 * Returns the limit of a unit's memory for systemd. All limits together are more than the memory: they keep one unit
 * from using that of all others.
 */
export const memoryMax = (size: MachineSize, unit: keyof typeof SHARES) =>
  `${Math.max(MEMORY_AT_LEAST_MB, Math.floor(size.memoryGb * MB_OF_GB * SHARES[unit]))}M`;
