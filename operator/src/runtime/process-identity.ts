/**
 * A name for this process: host, process id, and the data that makes the id unambiguous (boot of the kernel, process-id
 * namespace, start time). Another process on the same machine can check by it whether this one still runs.
 */
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Returns `<host>_<scope>_<pid>_<start>`. Scope and start are `-` where the system does not report them. */
export const processIdentity = () => [hostname(), processScope(), process.pid, startOf(process.pid) ?? '-'].join('_');

/** Whether the process of `identity` has certainly ended. False if it runs, or if its state is unknown here. */
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

/** Returns the start time of a process in clock ticks after boot. Undefined if there is no such process. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
