/** Sends one kind of request to each contestant that answers it correctly, in turn. */
import type { BenchContext } from '../bench.js';
import { LoadGenerator, type LoadRun } from '../measure/load.js';
import { type Contestant, interleave, type Measured, type Ratio, ratioOf } from '../measure/rounds.js';
import { loadJob, type Operation } from './operations.js';
import { BARE, LITE, PGBENCH, POSTRUST, type Server, SLIPWAY, type Stage } from './stage.js';

/** How many times as fast as each contestant Slipway should be. */
const AT_LEAST: Record<string, number> = { [BARE]: 0.8, [POSTRUST]: 2, [LITE]: 5 };
const POOL_SIZES = [2, 4, 8, 16, 32];
const POOL_TRIAL_SECONDS = 1;

export interface Unable {
  name: string;
  reason: string;
}

export interface OperationResult {
  operation: string;
  /** Pool sizes of contestants that have a pool. */
  poolSizes: Record<string, number>;
  measured: Measured[];
  ratios: Ratio[];
  unable: Unable[];
}

export async function measure(
  operation: Operation,
  stage: Stage,
  { plan, say }: BenchContext,
): Promise<OperationResult> {
  const { slipway, bare, pgbench, postgres } = stage;
  await operation.verify(slipway.project, slipway.session);
  await operation.verify(bare.project, bare.session, slipway.project);
  const { able, unable } = await tryPeers(operation, stage);
  const generators: LoadGenerator[] = [];
  try {
    const contestants: Contestant[] = [];
    const poolSizes: Record<string, number> = {};
    for (const server of [slipway, bare, ...able]) {
      const generator = new LoadGenerator(loadJob(operation, server.project, server.session));
      generators.push(generator);
      const poolSize = await bestPoolSize(server, generator, plan.connections);
      if (poolSize !== undefined) {
        say(`${operation.name}: ${server.name} is fastest on ${poolSize} connections`);
        poolSizes[server.name] = poolSize;
      }
      contestants.push({ name: server.name, run: (run) => generator.run(run), processes: server.processes() });
    }
    if (pgbench) {
      const run = (options: LoadRun) => pgbench.run(operation.name, options);
      contestants.push({ name: PGBENCH, run, processes: { postgres } });
    }
    say(`${operation.name}: ${plan.rounds} rounds of ${plan.seconds} s`);
    const measured = await interleave(contestants, plan);
    const ratios = contestants.slice(1).map(({ name }) => ratioOf(measured, SLIPWAY, name, AT_LEAST[name]));
    if (pgbench) ratios.push(ratioOf(measured, BARE, PGBENCH));
    return { operation: operation.name, poolSizes, measured, ratios, unable };
  } finally {
    for (const generator of generators) generator.close();
  }
}

/** Returns the peers that answer this request correctly, and the errors of the others. */
async function tryPeers(operation: Operation, { peers, slipway }: Stage) {
  const able: Server[] = [];
  const unable: Unable[] = [];
  for (const peer of peers) {
    const reader = peer.session === slipway.session ? slipway.project : peer.project;
    try {
      await operation.verify(peer.project, peer.session, reader);
      able.push(peer);
    } catch (error) {
      unable.push({ name: peer.name, reason: (error as Error).message });
    }
  }
  return { able, unable };
}

/** Sets a server's pool to the size with which it was fastest. */
async function bestPoolSize(
  server: Server,
  generator: LoadGenerator,
  connections: number,
): Promise<number | undefined> {
  if (!server.setPoolSize) return undefined;
  let best = { poolSize: 0, perSecond: 0 };
  for (const poolSize of POOL_SIZES) {
    await server.setPoolSize(poolSize);
    const { perSecond } = await generator.run({ connections, seconds: POOL_TRIAL_SECONDS });
    if (perSecond > best.perSecond) best = { poolSize, perSecond };
  }
  await server.setPoolSize(best.poolSize);
  return best.poolSize;
}
