/**
 * A name for this process that tells another on the same machine whether it still runs: host, process id, and what
 * makes the id unambiguous (which kernel run, which process-id namespace, when it was started).
 */
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** `<host>_<scope>_<pid>_<start>`; scope and start are `-` where the system doesn't tell. */
export const processIdentity = () => [hostname(), processScope(), process.pid, startOf(process.pid) ?? '-'].join('_');

/** Whether the process of `identity` has certainly ended; false when it runs or can't be known from here. */
export function hasEnded(identity: string): boolean {
  const [start, pid, scope, ...host] = identity.split('_').reverse();
  if (host.reverse().join('_') !== hostname() || !scope || scope === '-' || scope !== processScope()) return false;
  return startOf(Number(pid)) !== start;
}

function processScope(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return createHash('sha256')
      .update(boot + readlinkSync('/proc/self/ns/pid'))
      .digest('hex')
      .slice(0, 12);
  } catch {
    return '-';
  }
}

/** Clock ticks after boot; undefined when there is no such process. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
