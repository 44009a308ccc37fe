/**
 * Runs the tasks of one contestant in a process of its own. In: the script, and the bursts that cause events. Out:
 * speed, processor time and memory.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { cpuSeconds, memoryMiB, residentMiB } from '../measure/processes.js';
import { nextMessage } from '../peers.js';
import type { Task } from './tally.js';

export interface Contestant {
  name: string;
  script: string;
  /** True if it writes the status; false if it only counts events. */
  writes: boolean;
}

export interface Burst {
  events: number;
  cause(): Promise<void>;
}

export interface Run {
  /** Events of the backlog that exists before the start. */
  startPerSecond: number;
  startCpuMicros: number;
  /** Changes during the run. */
  changesPerSecond: number;
  changesCpuMicros: number;
  pssMiB: number;
  rssMiB: number;
}

export async function runContestant(
  { script, writes }: Contestant,
  env: NodeJS.ProcessEnv,
  [start, changes]: [start: Burst, changes: Burst],
): Promise<Run> {
  const child = fork(script, { stdio: ['ignore', 2, 2, 'ipc'], env });
  const pid = child.pid as number;
  await nextMessage(child);
  const first = await handle(child, start, writes);
  const second = await handle(child, changes, writes);
  const memory = { pssMiB: await memoryMiB(pid), rssMiB: await residentMiB(pid) };
  const exited = once(child, 'exit');
  child.disconnect();
  await exited;
  return {
    startPerSecond: first.perSecond,
    startCpuMicros: first.cpuMicros,
    changesPerSecond: second.perSecond,
    changesCpuMicros: second.cpuMicros,
    ...memory,
  };
}

async function handle(child: ChildProcess, { events, cause }: Burst, writes: boolean) {
  const pid = child.pid as number;
  const task: Task = { count: events, writes };
  const before = await cpuSeconds(pid);
  const begin = performance.now();
  child.send(task);
  const [, ended] = await Promise.all([cause(), nextMessage(child).then(() => performance.now())]);
  const cpu = (await cpuSeconds(pid)) - before;
  return { perSecond: (events * 1000) / (ended - begin), cpuMicros: (cpu * 1e6) / events };
}
