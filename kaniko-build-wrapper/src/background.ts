/**
 * Runs a build behind everything else on the machine: at the lowest priority for processors and disks, and on at most
 * half of the processors. All builds share the same half. In: a command. Out: the command with these limits, which it
 * can't lift: the filter of system calls keeps the processors and the priority of the disk, and the kernel the other.
 */
import { readFileSync } from 'node:fs';
import { systemProgram } from '@slipway/sandbox';

/** A machine without one of the programs runs builds without its limit. */
export function inBackground(command: readonly string[]): string[] {
  const processors = halfOf(allowedProcessors());
  return [
    ...(systemProgram('nice') ? ['nice', '-n', '19'] : []),
    ...(systemProgram('ionice') ? ['ionice', '-c', '3', '-t'] : []),
    ...(systemProgram('taskset') && processors.length > 0 ? ['taskset', '-c', processors.join(',')] : []),
    ...command,
  ];
}

/** Returns the last half, because the system's own work is mostly on the first processors. One of one stays. */
const halfOf = (processors: readonly number[]) => processors.slice(-Math.max(1, Math.floor(processors.length / 2)));

/** Returns the numbers of the processors that this process may use. Empty if the system does not name them. */
function allowedProcessors(): number[] {
  const status = readIfThere('/proc/self/status');
  const list = /^Cpus_allowed_list:\s+(\S+)$/m.exec(status)?.[1] ?? '';
  return list.split(',').flatMap((range) => {
    const [first, last = first] = range.split('-').map(Number);
    if (first === undefined || last === undefined || !(last >= first)) return [];
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
