/**
 * Benchmark of apps: responses of two sizes from an app, through Slipway's gateway, and through a bare Node proxy to
 * the same app.
 */
import { fileURLToPath } from 'node:url';
import { type Bench, type BenchContext, type BenchResult, type Closers, chosen, closing } from '../bench.js';
import { LoadGenerator } from '../measure/load.js';
import { type Contestant, interleave, type Measured } from '../measure/rounds.js';
import { startProgram } from '../peers.js';
import { servedTable, servedTarget } from '../report/served.js';
import { startDataPlane } from './data-plane.js';

const SLIPWAY = 'slipway';
const BARE = 'bare node proxy';
const AT_LEAST_OF_BARE = 0.85;
const KB = 1000;

const SIZES = [
  { name: '1 KB', bytes: KB, connections: 32 },
  { name: '100 KB', bytes: 100 * KB, connections: 32 },
];
type Size = (typeof SIZES)[number];

export const apps: Bench = closing(measure);

interface Proxy {
  name: string;
  pid: number;
  port: number;
  host?: string;
}

async function measure(context: BenchContext, closers: Closers): Promise<BenchResult> {
  const { plan, say, only } = context;
  const sizes = chosen(SIZES, ({ name }) => name, only);
  say('starting an app, a data plane, and a bare proxy');
  const proxies = await proxiesOf(context, closers);
  const served: { size: Size; results: Measured[] }[] = [];
  for (const size of sizes) {
    say(`${size.name}: ${plan.rounds} rounds of ${plan.seconds} s, ${size.connections} at once`);
    const contestants = proxies.map((proxy) => contestant(proxy, size));
    served.push({ size, results: await interleave(contestants, { ...plan, connections: size.connections }) });
    for (const { close } of contestants) close();
  }
  const targets = served.map((each) => servedTarget(each, SLIPWAY, BARE, AT_LEAST_OF_BARE));
  return { tables: served.map(servedTable), targets, skipped: [], data: { served } };
}

async function proxiesOf({ environment }: BenchContext, closers: Closers): Promise<Proxy[]> {
  const start = async (script: string, settings: object) => {
    const program = await startProgram(fileURLToPath(new URL(script, import.meta.url)), settings);
    closers.push(() => program.close());
    return program;
  };
  const app = await start('./container.js', {});
  const bare = await start('./bare-proxy.js', { port: app.port });
  const dataPlane = await startDataPlane(app.port, environment.PATH ?? '');
  closers.push(() => dataPlane.close());
  return [
    { name: SLIPWAY, ...dataPlane },
    { name: BARE, pid: bare.pid, port: bare.port },
  ];
}

function contestant({ name, pid, port, host }: Proxy, { bytes }: Size) {
  const template = { method: 'GET', path: `/${bytes}`, headers: host ? { host } : {} };
  const baseUrl = `http://127.0.0.1:${port}`;
  const load = new LoadGenerator({ baseUrl, scenario: { kind: 'template', template }, expectedStatuses: [200] });
  return {
    name,
    processes: { server: pid },
    run: (run) => load.run(run),
    close: () => load.close(),
  } satisfies Contestant & { close(): void };
}
