/**
 * Benchmark of the operator's cost: contestants handle 2,000 resources shaped like Projects, each in a process of its
 * own, on the same API server in turn. Measured: the start over a backlog, then changes as they arrive, then memory.
 */
import { fileURLToPath } from 'node:url';
import { KubeClient, loadKubeConfig } from '@slipway/kubernetes';
import { type Bench, type BenchContext, chosen } from '../bench.js';
import { median, type Spread, spread } from '../measure/rounds.js';
import { peerScript } from '../peers.js';
import { Platform } from '../platform.js';
import { decimals, whole } from '../report/table.js';
import { type Contestant, type Run, runContestant } from './contestant.js';
import { Widgets } from './widgets.js';

const WIDGETS = 2000;
const CHANGES = 1000;
const AT_LEAST_OF_PEER = 5;

const OWN_SERVER = 'slipway-apiserver';
const REAL_SERVER = 'kube-apiserver';

const SLIPWAY = 'slipway';
const PEER = '@dot-i/k8s-operator';
const COUNTING = 'slipway, counting';
const HOLLOW = 'hollow loop';

const built = (name: string) => fileURLToPath(new URL(name, import.meta.url));
/**
 * The contestants. Those that write the status come first. The others do half the work, and are compared with each
 * other.
 */
const CONTESTANTS: Contestant[] = [
  { name: SLIPWAY, script: built('./slipway-operator.js'), writes: true },
  { name: PEER, script: peerScript('dot-i-operator.mjs'), writes: true },
  { name: COUNTING, script: built('./slipway-operator.js'), writes: false },
  { name: HOLLOW, script: built('./hollow-loop.js'), writes: false },
];

type Quantity = keyof Run;
interface ServerResult {
  server: string;
  runs: Record<string, Run[]>;
  /** Ratios of slipway to each other contestant, round by round. */
  ratios: Record<string, Record<Quantity, Spread>>;
}

export const reconcile: Bench = async (context) => {
  const servers = chosen([OWN_SERVER, REAL_SERVER], (name) => name, context.only);
  const results: ServerResult[] = [];
  if (servers.includes(OWN_SERVER)) {
    context.say('starting a platform');
    const platform = await Platform.start();
    try {
      results.push(await measureOn(OWN_SERVER, platform.running.kubeconfig, context));
    } finally {
      await platform.close();
    }
  }
  if (servers.includes(REAL_SERVER) && context.kubeconfig)
    results.push(await measureOn(REAL_SERVER, context.kubeconfig, context));
  return summarise(results, context);
};

async function measureOn(
  server: string,
  kubeconfig: string,
  { plan, environment, say }: BenchContext,
): Promise<ServerResult> {
  const client = await KubeClient.connect(await loadKubeConfig(kubeconfig));
  const widgets = new Widgets(client, WIDGETS);
  const runs: Record<string, Run[]> = Object.fromEntries(CONTESTANTS.map(({ name }) => [name, []]));
  try {
    say(`${server}: making ${WIDGETS} widgets`);
    await widgets.remove();
    await widgets.create();
    for (let round = 0; round < plan.rounds; round++) {
      for (const contestant of CONTESTANTS) {
        if (contestant.writes) await widgets.change(WIDGETS);
        const run = await runContestant(contestant, { ...environment, KUBECONFIG: kubeconfig }, [
          { events: WIDGETS, cause: async () => {} },
          { events: CHANGES, cause: () => widgets.change(CHANGES) },
        ]);
        if (contestant.writes) await widgets.verify();
        say(`${server}: ${contestant.name} ${whole(run.startPerSecond)}/s, then ${whole(run.changesPerSecond)}/s`);
        runs[contestant.name]?.push(run);
      }
    }
  } finally {
    await widgets.remove();
    await client.close();
  }
  return { server, runs, ratios: ratiosOf(runs) };
}

const QUANTITIES: Quantity[] = [
  'startPerSecond',
  'startCpuMicros',
  'changesPerSecond',
  'changesCpuMicros',
  'pssMiB',
  'rssMiB',
];

function ratiosOf(runs: Record<string, Run[]>): ServerResult['ratios'] {
  const values = (name: string, quantity: Quantity) => (runs[name] as Run[]).map((run) => run[quantity]);
  const ratio = (of: string, to: string, quantity: Quantity) => {
    const others = values(to, quantity);
    return spread(values(of, quantity).map((value, round) => value / (others[round] as number)));
  };
  const against = ({ name, writes }: Contestant) =>
    Object.fromEntries(QUANTITIES.map((quantity) => [quantity, ratio(writes ? SLIPWAY : COUNTING, name, quantity)]));
  return Object.fromEntries(
    CONTESTANTS.map((contestant) => [contestant.name, against(contestant)]),
  ) as ServerResult['ratios'];
}

function summarise(results: ServerResult[], { kubeconfig }: BenchContext) {
  const absolute = results.flatMap(({ server, runs }) =>
    CONTESTANTS.map(({ name }, index) => [
      index === 0 ? server : '',
      name,
      ...QUANTITIES.map((quantity) => whole(median((runs[name] as Run[]).map((run) => run[quantity])))),
    ]),
  );
  const relative = results.flatMap(({ server, ratios }) =>
    [
      [SLIPWAY, PEER],
      [COUNTING, HOLLOW],
    ].map(([of, to], index) => [
      index === 0 ? server : '',
      `${of} ÷ ${to}`,
      ...QUANTITIES.map((quantity) => decimals((ratios[to as string] as Record<Quantity, Spread>)[quantity].median)),
    ]),
  );
  const columns = ['start, events/s', 'CPU µs each', 'changes, events/s', 'CPU µs each', 'PSS MiB', 'RSS MiB'];
  const targets = results.map(({ server, ratios }) => ({
    what: `reconciles on ${server}: slipway ÷ ${PEER}`,
    value: (ratios[PEER] as Record<Quantity, Spread>).startPerSecond.median,
    target: AT_LEAST_OF_PEER,
    bound: 'at least' as const,
  }));
  const tables = [
    { title: `${whole(WIDGETS)} resources`, head: ['API server', 'operator', ...columns], rows: absolute },
    { title: 'As ratios', head: ['API server', '', ...columns], rows: relative },
  ];
  const skipped = kubeconfig ? [] : [`${REAL_SERVER}: set KUBECONFIG to one`];
  return { tables, targets, skipped, data: results };
}
