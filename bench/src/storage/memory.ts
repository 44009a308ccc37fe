/** How much more memory a process has while something goes on than before. */
import { setTimeout as pause } from 'node:timers/promises';
import { memoryMiB, residentMiB } from '../measure/processes.js';

const SAMPLE_MS = 100;

/** In MiB: what is resident (RSS), and that with pages counted in part that others share (PSS). */
export interface Growth {
  idle: number;
  /** The most above idle. */
  peak: number;
  /** The most above idle in the first third of the time and in the last: alike, where it is flat. */
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
