/**
 * Benchmark of edge functions: a warm call, beside the same Deno.serve behind a minimal Node pass-through; and a cold
 * start, beside a bare `deno run`. On Slipway's side a call passes everything: gateway, key check and limits.
 */
import { fork } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Bench, type BenchContext, type Closers, closing, type Table, type Target } from '../bench.js';
import { LoadGenerator, type LoadJob } from '../measure/load.js';
import { type Contestant, interleave, type Measured, median, ratioOf, spread } from '../measure/rounds.js';
import { Platform } from '../platform.js';
import { decimals, whole } from '../report/table.js';
import { BareDeno } from './bare-deno.js';

const THROUGHPUT_AT_LEAST = 0.7;
const LATENCY_AT_MOST = 1.5;
const COLD_START_AT_MOST = 1.3;
const COLD_STARTS = 15;
const SLIPWAY = 'slipway';
const BARE = 'pass-through';
/** Its response has the process id, so that the bench can end that process and cause a cold start. */
export const HANDLER = '() => new Response(String(Deno.pid))';
const PLAIN_HANDLER = `() => new Response('1234567')`;

export const functions: Bench = closing(measure);

async function measure({ plan, say }: BenchContext, closers: Closers) {
  say('starting a platform with a function, and the same function bare');
  const platform = await Platform.start({ SLIPWAY_SERVICES_SHARED: 'functions' });
  closers.push(() => platform.close());
  const project = await platform.createProject();
  await platform.deployFunction(project, 'bench', `Deno.serve(${HANDLER});`);
  const served = platform.served(project);
  const bare = await BareDeno.make(PLAIN_HANDLER);
  closers.push(() => bare.remove());
  await bare.start();
  const passThrough = await startPassThrough(bare.socket, closers);
  const headers = { authorization: `Bearer ${served.anonKey}` };
  const contestants = [
    contestant(SLIPWAY, served.baseUrl, '/functions/v1/bench', headers, closers),
    contestant(BARE, `http://127.0.0.1:${passThrough}`, '/bench', headers, closers),
  ];
  say(`${plan.rounds} rounds of ${plan.seconds} s, with ${plan.connections} callers and with one`);
  const many = await interleave(contestants, plan);
  const one = await interleave(contestants, { ...plan, connections: 1 });
  say(`${COLD_STARTS} cold starts of each`);
  const cold = await coldStarts(`${served.baseUrl}/functions/v1/bench`, headers, bare);
  return resultOf(plan.connections, many, one, cold);
}

function contestant(name: string, baseUrl: string, path: string, headers: Record<string, string>, closers: Closers) {
  const job: LoadJob = {
    baseUrl,
    scenario: { kind: 'template', template: { method: 'POST', path, headers, body: '{}' } },
    expectedStatuses: [200],
  };
  const generator = new LoadGenerator(job);
  closers.push(() => generator.close());
  return { name, run: (run) => generator.run(run) } satisfies Contestant;
}

function startPassThrough(socket: string, closers: Closers): Promise<number> {
  const child = fork(fileURLToPath(new URL('./pass-through.js', import.meta.url)), [socket]);
  closers.push(() => child.disconnect());
  return new Promise((resolve) => child.once('message', (port) => resolve(port as number)));
}

interface ColdStarts {
  slipway: number[];
  bare: number[];
}

/** They take turns, so that a noisy machine disturbs both alike. */
async function coldStarts(url: string, headers: Record<string, string>, bare: BareDeno): Promise<ColdStarts> {
  const times: ColdStarts = { slipway: [], bare: [] };
  for (let start = 0; start < COLD_STARTS; start++) {
    await bare.stop();
    times.bare.push(await bare.start());
    times.slipway.push(await coldStart(url, headers));
  }
  return times;
}

/**
 * Ends the isolate of a function that is `HANDLER`, calls the function again, and returns the duration of that call in
 * milliseconds.
 */
export async function coldStart(url: string, headers: Record<string, string>): Promise<number> {
  const call = async () => Number(await (await fetch(url, { headers })).text());
  const pid = await call();
  process.kill(pid, 'SIGKILL');
  await pause(100);
  const begun = performance.now();
  if ((await call()) === pid) throw new Error('the same isolate answered again');
  return performance.now() - begun;
}

function resultOf(callers: number, many: Measured[], one: Measured[], cold: ColdStarts) {
  const throughput = ratioOf(many, SLIPWAY, BARE).ratio.median;
  const [ours, theirs] = [SLIPWAY, BARE].map((who) => one.find(({ name }) => name === who)?.p50 ?? Number.NaN);
  const latency = (ours as number) / (theirs as number);
  const coldRatio = median(cold.slipway.map((time, index) => time / (cold.bare[index] as number)));
  const tables: Table[] = [
    warmTable(`A warm call, ${callers} callers`, many),
    warmTable('A warm call, one caller', one),
    coldTable(cold),
  ];
  const targets: Target[] = [
    {
      what: 'warm call, throughput: slipway ÷ pass-through',
      value: throughput,
      target: THROUGHPUT_AT_LEAST,
      bound: 'at least',
    },
    {
      what: 'warm call, p50 with one caller: slipway ÷ pass-through',
      value: latency,
      target: LATENCY_AT_MOST,
      bound: 'at most',
    },
    { what: 'cold start: slipway ÷ bare deno run', value: coldRatio, target: COLD_START_AT_MOST, bound: 'at most' },
  ];
  return { tables, targets, skipped: [], data: { many, one, cold } };
}

const warmTable = (title: string, measured: Measured[]): Table => ({
  title,
  head: ['who', 'calls/s', 'spread', 'p50 ms', 'p95 ms'],
  rows: measured.map(({ name, perSecond, p50 = Number.NaN, p95 = Number.NaN }) => [
    name,
    whole(perSecond.median),
    `${whole(perSecond.lowest)} – ${whole(perSecond.highest)}`,
    decimals(p50),
    decimals(p95),
  ]),
});

const coldTable = ({ slipway, bare }: ColdStarts): Table => ({
  title: 'A cold start, to the first answer',
  head: ['who', 'ms', 'spread'],
  rows: Object.entries({ slipway, 'bare deno run': bare }).map(([name, times]) => {
    const { median: middle, lowest, highest } = spread(times);
    return [name, decimals(middle, 1), `${decimals(lowest, 1)} – ${decimals(highest, 1)}`];
  }),
});
