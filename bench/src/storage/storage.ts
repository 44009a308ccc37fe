/**
 * Benchmark of storage: uploads and downloads of three sizes, beside a bare Node server that streams bodies to files
 * and back, and the memory of both while the largest are in flight. On Slipway's side a request passes everything:
 * gateway, key check, the caller's policies, and rows in the project's database.
 */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type Bench,
  type BenchContext,
  type BenchResult,
  type Closers,
  chosen,
  closing,
  type Table,
  type Target,
} from '../bench.js';
import type { Contestant, Measured, Plan } from '../measure/rounds.js';
import { interleave, ratioOf } from '../measure/rounds.js';
import { startProgram } from '../peers.js';
import { Platform } from '../platform.js';
import { decimals, whole } from '../report/table.js';
import { openBucket } from './bucket.js';
import { type Growth, growthWhile } from './memory.js';
import { type TransferJob, Transfers } from './transfers.js';

const AT_LEAST_OF_BARE = 0.8;
/**
 * Maximum growth of the memory in MiB: one object of the largest size. Several objects at once need only a fraction of
 * each.
 */
const GROWTH_AT_MOST_MIB = 100;
const SLIPWAY = 'slipway';
const BARE = 'bare streaming';
const MEMORY = 'memory';
/**
 * Folder of both contestants, in memory if the machine has such a file system. Otherwise the results would depend on
 * the disk's speed, and on its work after files are removed.
 */
const FILES = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const KB = 1000;
const DIRECTIONS = ['upload', 'download'] as const;

interface Size {
  name: string;
  bytes: number;
  connections: number;
  /** True if the target is to come near the bare server. */
  wanted: boolean;
}

const SMALL: Size = { name: '10 KB', bytes: 10 * KB, connections: 32, wanted: false };
const LARGE: Size = { name: '100 MB', bytes: KB ** 2 * 100, connections: 4, wanted: true };
const SIZES: readonly Size[] = [SMALL, { name: '1 MB', bytes: KB ** 2, connections: 8, wanted: true }, LARGE];

type Direction = (typeof DIRECTIONS)[number];

interface Part {
  name: string;
  direction: Direction;
  size: Size;
}

const PARTS: readonly Part[] = SIZES.flatMap((size) =>
  DIRECTIONS.map((direction) => ({ name: `${direction} ${size.name}`, direction, size })),
);

/** A measured server: the URL for objects, and the process whose memory is measured. */
interface Server extends Pick<TransferJob, 'baseUrl' | 'headers' | 'clear'> {
  name: string;
  pid: number;
}

export const storage: Bench = closing(measure);

async function measure({ plan, say, only }: BenchContext, closers: Closers): Promise<BenchResult> {
  const named = chosen([...PARTS, { name: MEMORY }], ({ name }) => name, only);
  say('starting a platform with storage, and a bare server');
  const servers = [await startSlipway(closers), await startBare(closers)];
  const grown = named.some(({ name }) => name === MEMORY) ? await measureMemory(servers, plan, say) : [];
  const measured: { part: Part; results: Measured[] }[] = [];
  for (const part of named) {
    if (!('size' in part)) continue;
    say(`${part.name}: ${plan.rounds} rounds of ${plan.seconds} s, ${part.size.connections} at once`);
    const contestants = servers.map((server) => contestant(server, part));
    const results = await interleave(contestants, { ...plan, connections: part.size.connections });
    for (const { close } of contestants) close();
    measured.push({ part, results });
  }
  return {
    tables: [
      ...measured.map(({ part, results }) => speedTable(part, results)),
      ...(grown.length ? [growthTable(grown)] : []),
    ],
    targets: [...measured.flatMap(({ part, results }) => speedTarget(part, results)), ...grown.flatMap(growthTarget)],
    skipped: [],
    data: { measured, grown },
  };
}

async function startSlipway(closers: Closers): Promise<Server> {
  const folder = await newFolder(closers);
  const platform = await Platform.start({ SLIPWAY_SERVICES_SHARED: 'storage', SLIPWAY_STORAGE_DIR: folder });
  closers.push(() => platform.close());
  const project = await platform.createProject();
  const { dataplane } = await platform.programs();
  return { name: SLIPWAY, pid: dataplane as number, ...(await openBucket(platform, project)) };
}

async function startBare(closers: Closers): Promise<Server> {
  const folder = await newFolder(closers);
  const { pid, port, close } = await startProgram(fileURLToPath(new URL('./bare-server.js', import.meta.url)), {
    folder,
  });
  closers.push(close);
  return { name: BARE, pid, baseUrl: `http://127.0.0.1:${port}/`, headers: {}, clear: ['DELETE', '/'] };
}

async function newFolder(closers: Closers): Promise<string> {
  const folder = await mkdtemp(path.join(FILES, 'slipway-bench-'));
  closers.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function contestant({ name, pid, ...server }: Server, { direction, size }: Omit<Part, 'name'>) {
  const transfers = new Transfers({ ...server, direction, bytes: size.bytes });
  return {
    name,
    processes: { server: pid },
    run: (run) => transfers.run(run),
    close: () => transfers.close(),
  } satisfies Contestant & { close(): void };
}

interface Grown extends Growth {
  name: string;
  direction: Direction;
}

/** Taken before any large object: the idle memory is what small objects leave behind. */
async function measureMemory(servers: Server[], plan: Plan, say: (text: string) => void): Promise<Grown[]> {
  const grown: Grown[] = [];
  for (const direction of DIRECTIONS) {
    for (const server of servers) {
      say(`memory of ${server.name}: ${direction} of ${LARGE.connections} × ${LARGE.name} at once`);
      await transferred(server, direction, SMALL, plan.warmUpSeconds);
      const growth = await growthWhile(server.pid, () => transferred(server, direction, LARGE, plan.seconds * 2));
      grown.push({ name: server.name, direction, ...growth });
    }
  }
  return grown;
}

async function transferred(server: Server, direction: Direction, size: Size, seconds: number): Promise<void> {
  const { run, close } = contestant(server, { direction, size });
  const { failures, firstFailure } = await run({ connections: size.connections, seconds });
  close();
  if (failures > 0) throw new Error(`${server.name}: ${failures} wrong answers, the first: ${firstFailure}`);
}

const speedTable = ({ name, size }: Part, measured: Measured[]): Table => ({
  title: `${name}, ${size.connections} at once`,
  head: ['who', 'a second', 'MB/s', 'spread', 'p50 ms', 'p95 ms', 'CPU ms each'],
  rows: measured.map(({ name: who, perSecond, p50 = Number.NaN, p95 = Number.NaN, cpuMicros }) => [
    who,
    decimals(perSecond.median, 1),
    whole((perSecond.median * size.bytes) / KB ** 2),
    `${decimals(perSecond.lowest, 1)} – ${decimals(perSecond.highest, 1)}`,
    decimals(p50, 1),
    decimals(p95, 1),
    decimals((cpuMicros.server ?? 0) / 1000),
  ]),
});

const speedTarget = ({ name, size }: Part, measured: Measured[]): Target[] =>
  size.wanted
    ? [
        {
          what: `${name}: ${SLIPWAY} ÷ ${BARE}`,
          value: ratioOf(measured, SLIPWAY, BARE).ratio.median,
          target: AT_LEAST_OF_BARE,
          bound: 'at least',
        },
      ]
    : [];

const growthTable = (grown: Grown[]): Table => ({
  title: `Memory while ${LARGE.connections} × ${LARGE.name} are under way, MiB above idle`,
  head: [
    'who',
    'direction',
    'idle RSS',
    'most above',
    'in the first third',
    'in the last third',
    'idle PSS',
    'most above (PSS)',
  ],
  rows: grown.map(({ name, direction, idle, peak, firstThird, lastThird, idlePss, peakPss }) => [
    name,
    direction,
    ...[idle, peak, firstThird, lastThird, idlePss, peakPss].map(whole),
  ]),
});

const growthTarget = ({ name, direction, peak }: Grown): Target[] =>
  name === SLIPWAY
    ? [{ what: `${direction}: MiB above idle`, value: peak, target: GROWTH_AT_MOST_MIB, bound: 'at most' }]
    : [];
