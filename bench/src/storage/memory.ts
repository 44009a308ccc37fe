/** Measures how much more memory a process has during work than before. */
import { setTimeout as pause } from 'node:timers/promises';
import { memoryMiB, residentMiB } from '../measure/processes.js';

const SAMPLE_MS = 100;

/** In MiB: resident memory (RSS), and the same with shared pages counted in part (PSS). */
export interface Growth {
  idle: number;
  /** The maximum above idle. */
  peak: number;
  /** The maximum above idle in the first and in the last third of the time; about equal if memory does not grow. */
  firstThird: number;
  lastThird: number;
  idlePss: number;
  peakPss: number;
}

export async function growthWhile(pid: number, work: () => Promise<unknown>): Promise<Growth> {
  const [idle, idlePss] = [await residentMiB(pid), await memoryMiB(pid)];
  const resident: number[] = [];
  const shared: number[] = [];
  let over = false;
  const ended = work().finally(() => {
    over = true;
  });
  while (!over) {
    resident.push((await residentMiB(pid)) - idle);
    shared.push((await memoryMiB(pid)) - idlePss);
    await Promise.race([ended, pause(SAMPLE_MS)]);
  }
  await ended;
  const third = Math.ceil(resident.length / 3);
  const most = (samples: number[]) => Math.max(0, ...samples);
  return {
    idle,
    peak: most(resident),
    firstThird: most(resident.slice(0, third)),
    lastThird: most(resident.slice(-third)),
    idlePss,
    peakPss: most(shared),
  };
}
