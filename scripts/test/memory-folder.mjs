/**
 * The folder in which the Postgres servers of tests keep their data: in memory, where there is enough of it. A project
 * database has 300 files; creating one on a disk takes eight times the processor time. Called by `npm test`.
 */
import { readFileSync, statfsSync } from 'node:fs';
import { freemem } from 'node:os';

const MEMORY = '/dev/shm';
/** Two tests at once need less than 2 GiB of it; their programs need the rest. */
const LEAST_FREE_BYTES = 8 * 2 ** 30;

/** Returns undefined if the machine has no such folder, or too little memory. */
export function memoryFolder() {
  return isMemory() && availableBytes() >= LEAST_FREE_BYTES ? MEMORY : undefined;
}

function isMemory() {
  if (process.platform !== 'linux') return false;
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
  return mounts.findLast((line) => line.split(' ')[1] === MEMORY)?.split(' ')[2] === 'tmpfs';
}

function availableBytes() {
  const { bavail, bsize } = statfsSync(MEMORY);
  return Math.min(bavail * bsize, process.availableMemory?.() ?? freemem());
}
