/**
 * Benchmark of sites: files of two sizes, beside a bare Node server and nginx over the same files; the time from a push
 * until the site serves it, beside the same commands by hand; and the time of a rollback.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { missingWall } from '@slipway/kaniko-build-wrapper';
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
import { LoadGenerator } from '../measure/load.js';
import { children } from '../measure/processes.js';
import { type Contestant, interleave, type Measured } from '../measure/rounds.js';
import { startProgram } from '../peers.js';
import { servedTable, servedTarget } from '../report/served.js';
import { decimals } from '../report/table.js';
import { startNginx } from './nginx.js';
import { type Pushed, Site } from './site.js';

const SLIPWAY = 'slipway';
const BARE = 'bare node';
const NGINX = 'nginx';
const AT_LEAST_OF_BARE = 0.85;
const PUSH_AT_MOST_SECONDS = 2;
const ROLLBACK_AT_MOST_SECONDS = 0.3;
const KB = 1000;

const SIZES = [
  { name: '10 KB', file: 'small.txt', bytes: 10 * KB, connections: 32 },
  { name: '1 MB', file: 'large.txt', bytes: KB ** 2, connections: 8 },
];
type Size = (typeof SIZES)[number];
const PUSH = 'push';

export const sites: Bench = closing(measure);

interface Server {
  name: string;
  pid: number;
  baseUrl: string;
  host?: string;
}

async function measure(context: BenchContext, closers: Closers): Promise<BenchResult> {
  const { plan, say, only } = context;
  const wall = missingWall();
  if (wall)
    return { tables: [], targets: [], skipped: [`sites: this machine cannot isolate builds: ${wall}`], data: {} };
  const parts = chosen([...SIZES.map(({ name }) => name), PUSH], (name) => name, only);
  say('starting a platform with a site, a bare server, and nginx');
  const files = Object.fromEntries(SIZES.map(({ file, bytes }) => [file, textOf(bytes)]));
  const site = await Site.create(files);
  closers.push(() => site.close());
  const { servers, skipped } = await serversOf(site, files, { context, closers });
  const served: { size: Size; results: Measured[] }[] = [];
  for (const size of SIZES.filter(({ name }) => parts.includes(name))) {
    say(`${size.name}: ${plan.rounds} rounds of ${plan.seconds} s, ${size.connections} at once`);
    const contestants = servers.map((server) => contestant(server, size));
    served.push({ size, results: await interleave(contestants, { ...plan, connections: size.connections }) });
    for (const { close } of contestants) close();
  }
  const [pushes, rollbacks] = parts.includes(PUSH) ? await pushed(site, plan.rounds, say) : [[], []];
  return {
    tables: [...served.map(servedTable), ...(pushes.length > 0 ? [pushTable(pushes, rollbacks)] : [])],
    targets: [
      ...served.map((each) => servedTarget(each, SLIPWAY, BARE, AT_LEAST_OF_BARE)),
      ...(pushes.length > 0 ? pushTargets(pushes, rollbacks) : []),
    ],
    skipped,
    data: { served, pushes, rollbacks },
  };
}

/** Returns digits. No contestant encodes them, because the requests accept no encoding. */
const textOf = (bytes: number) => Array.from({ length: bytes }, (_, at) => ((at * 2654435761) >>> 16) % 10).join('');

async function serversOf(
  site: Site,
  files: Readonly<Record<string, string>>,
  { context, closers }: { context: BenchContext; closers: Closers },
): Promise<{ servers: Server[]; skipped: string[] }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-bench-'));
  closers.push(() => rm(folder, { recursive: true, force: true }));
  const published = path.join(folder, 'files');
  await mkdir(published);
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(published, name), text);
  const all = await children(site.platform.pid);
  const dataplane = all.find(({ commandLine }) => commandLine.includes('/dataplane/dist/main.js'));
  const slipway = {
    ...{ name: SLIPWAY, pid: dataplane?.pid as number, baseUrl: `http://127.0.0.1:${site.platform.port}` },
    host: new URL(site.project.project_url).host,
  };
  const bare = await startProgram(fileURLToPath(new URL('./bare-server.js', import.meta.url)), { folder: published });
  closers.push(() => bare.close());
  const servers: Server[] = [slipway, { name: BARE, pid: bare.pid, baseUrl: `http://127.0.0.1:${bare.port}` }];
  const place = { files: published, own: path.join(folder, 'nginx') };
  const nginx = await startNginx(place, context.environment.PATH ?? '');
  if (nginx === undefined) return { servers, skipped: [`${NGINX} is not installed`] };
  closers.push(() => nginx.close());
  return {
    servers: [...servers, { name: NGINX, pid: nginx.pid, baseUrl: `http://127.0.0.1:${nginx.port}` }],
    skipped: [],
  };
}

function contestant({ name, pid, baseUrl, host }: Server, { file }: Size) {
  const template = { method: 'GET', path: `/${file}`, headers: host ? { host } : {} };
  const load = new LoadGenerator({ baseUrl, scenario: { kind: 'template', template }, expectedStatuses: [200] });
  return {
    name,
    processes: { server: pid },
    run: (run) => load.run(run),
    close: () => load.close(),
  } satisfies Contestant & { close(): void };
}

/** The first push and rollback warm up. */
async function pushed(site: Site, rounds: number, say: (text: string) => void): Promise<[Pushed[], number[]]> {
  const pushes: Pushed[] = [];
  const rollbacks: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    say(`push and rollback ${round} of ${rounds}`);
    pushes.push(await site.push());
    rollbacks.push(await site.rollBack());
  }
  return [pushes.slice(1), rollbacks.slice(1)];
}

const seconds = (milliseconds: number) => decimals(milliseconds / 1000);
const medianOf = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] as number;
const above = ({ live, byHand }: Pushed) => live - byHand;

const pushTable = (pushes: Pushed[], rollbacks: number[]): Table => ({
  title: 'Seconds until the site serves another page',
  head: ['round', 'push until live', 'the same commands by hand', 'rollback'],
  rows: pushes.map(({ live, byHand }, at) => [
    String(at + 1),
    seconds(live),
    seconds(byHand),
    seconds(rollbacks[at] as number),
  ]),
});

const pushTargets = (pushes: Pushed[], rollbacks: number[]): Target[] => [
  {
    what: 'push until live: seconds above the commands by hand',
    value: medianOf(pushes.map(above)) / 1000,
    target: PUSH_AT_MOST_SECONDS,
    bound: 'at most',
  },
  {
    what: 'rollback: seconds',
    value: medianOf(rollbacks) / 1000,
    target: ROLLBACK_AT_MOST_SECONDS,
    bound: 'at most',
  },
];
