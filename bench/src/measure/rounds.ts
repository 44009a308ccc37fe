/**
 * Interleaved rounds (A B C, A B C, …), so that a noisy machine disturbs all contestants alike. The result is the
 * median of the ratios within each round.
 */
import type { LoadRun, Sample } from './load.js';
import { cpuSeconds } from './processes.js';

export interface Contestant {
  name: string;
  run(run: LoadRun): Promise<Sample>;
  /** Roots of process trees whose processor time is measured, by name. */
  processes?: Record<string, number>;
}

export interface Spread {
  median: number;
  lowest: number;
  highest: number;
}

export interface Measured {
  name: string;
  perSecond: Spread;
  p50?: number;
  p95?: number;
  /** Processor microseconds for one request, by process. */
  cpuMicros: Record<string, number>;
  samples: Sample[];
}

export interface Ratio {
  of: string;
  to: string;
  ratio: Spread;
  target?: number;
  met?: boolean;
}

export interface Plan extends LoadRun {
  rounds: number;
  warmUpSeconds: number;
}

interface Timed extends Sample {
  cpu: Record<string, number>;
}

/** Runs every contestant once to warm up, then `rounds` times in turn. */
export async function interleave(contestants: Contestant[], plan: Plan): Promise<Measured[]> {
  const samples = new Map<string, Timed[]>(contestants.map(({ name }) => [name, []]));
  for (const contestant of contestants) {
    await timed(contestant, { connections: plan.connections, seconds: plan.warmUpSeconds });
  }
  for (let round = 0; round < plan.rounds; round++) {
    for (const contestant of contestants) samples.get(contestant.name)?.push(await timed(contestant, plan));
  }
  return contestants.map(({ name }) => summarise(name, samples.get(name) as Timed[]));
}

async function timed(contestant: Contestant, { connections, seconds }: LoadRun): Promise<Timed> {
  const watched = Object.entries(contestant.processes ?? {});
  const before = await Promise.all(watched.map(([, pid]) => cpuSeconds(pid)));
  const sample = await contestant.run({ connections, seconds });
  const after = await Promise.all(watched.map(([, pid]) => cpuSeconds(pid)));
  if (sample.failures > 0) {
    throw new Error(`${contestant.name}: ${sample.failures} wrong answers, the first: ${sample.firstFailure}`);
  }
  const cpu = Object.fromEntries(
    watched.map(([name], index) => [name, ((after[index] as number) - (before[index] as number)) * 1e6]),
  );
  return { ...sample, cpu };
}

function summarise(name: string, samples: Timed[]): Measured {
  const requests = samples.reduce((sum, sample) => sum + sample.requests, 0);
  const cpuMicros: Record<string, number> = {};
  for (const { cpu } of samples) {
    for (const [part, micros] of Object.entries(cpu)) cpuMicros[part] = (cpuMicros[part] ?? 0) + micros / requests;
  }
  const latency = (key: 'p50' | 'p95') => {
    const values = samples.flatMap((sample) => sample[key] ?? []);
    return values.length > 0 ? { [key]: median(values) } : {};
  };
  return {
    name,
    perSecond: spread(samples.map((sample) => sample.perSecond)),
    ...latency('p50'),
    ...latency('p95'),
    cpuMicros,
    samples: samples.map(({ cpu: _cpu, ...sample }) => sample),
  };
}

/** Returns how many times as fast `of` was as `to`, over all rounds. */
export function ratioOf(measured: Measured[], of: string, to: string, target?: number): Ratio {
  const [a, b] = [of, to].map((name) => measured.find((one) => one.name === name));
  if (!a || !b) throw new Error(`nothing measured for ${a ? to : of}`);
  const ratio = spread(a.samples.map((sample, round) => sample.perSecond / (b.samples[round]?.perSecond as number)));
  return { of, to, ratio, ...(target === undefined ? {} : { target, met: ratio.median >= target }) };
}

export function spread(values: number[]): Spread {
  return { median: median(values), lowest: Math.min(...values), highest: Math.max(...values) };
}

export function median(values: number[]): number {
  return percentile(values, 0.5);
}

/** Interpolates between two values. */
export function percentile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const [low, high] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]] as [number, number];
  return low + (high - low) * (at - Math.floor(at));
}
