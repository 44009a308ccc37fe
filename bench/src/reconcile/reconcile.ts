/**
 * Reconciles per second: operators that start over a backlog of widgets whose status is behind, each in a process of its own, on the
 * same API server in turn. Measured from its start until the last status is acknowledged.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { KubeConfig } from '@kubernetes/client-node';
import { KubeClient } from '@slipway/operator/runtime/kube.js';
import { type Bench, type BenchContext, chosen } from '../bench.js';
import { cpuSeconds, memoryMiB } from '../measure/processes.js';
import { type Spread, spread } from '../measure/rounds.js';
import { nextMessage, peerScript } from '../peers.js';
import { Platform } from '../platform.js';
import { decimals, whole } from '../report/table.js';
import { Widgets } from './widgets.js';

const WIDGETS = 2000;
const AT_LEAST_OF_PEER = 5;

const OWN_SERVER = 'slipway-apiserver';
const REAL_SERVER = 'kube-apiserver';

const OPERATORS = {
  slipway: fileURLToPath(new URL('./slipway-operator.js', import.meta.url)),
  '@dot-i/k8s-operator': peerScript('dot-i-operator.mjs'),
};
type OperatorName = keyof typeof OPERATORS;
const NAMES = Object.keys(OPERATORS) as OperatorName[];

interface Run {
  perSecond: number;
  cpuMicros: number;
  memoryMiB: number;
}

interface ServerResult {
  server: string;
  runs: Record<OperatorName, Run[]>;
  ratio: Spread;
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

export async function measureOn(
  server: string,
  kubeconfig: string,
  { plan, environment, say }: BenchContext,
): Promise<ServerResult> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const client = await KubeClient.connect(config);
  const widgets = new Widgets(client, WIDGETS);
  const runs: Record<OperatorName, Run[]> = { slipway: [], '@dot-i/k8s-operator': [] };
  try {
    say(`${server}: making ${WIDGETS} widgets`);
    await widgets.remove();
    await widgets.create();
    for (let round = 0; round < plan.rounds; round++) {
      for (const name of NAMES) {
        if (round > 0 || name !== NAMES[0]) await widgets.change();
        const run = await runOperator(OPERATORS[name], { ...environment, KUBECONFIG: kubeconfig });
        await widgets.verify();
        say(`${server}: ${name} ${whole(run.perSecond)}/s`);
        runs[name].push(run);
      }
    }
  } finally {
    await widgets.remove();
    await client.close();
  }
  const ratio = spread(
    runs.slipway.map(({ perSecond }, round) => perSecond / (runs['@dot-i/k8s-operator'][round] as Run).perSecond),
  );
  return { server, runs, ratio };
}

async function runOperator(script: string, env: NodeJS.ProcessEnv): Promise<Run> {
  const child = fork(script, { stdio: ['ignore', 2, 2, 'ipc'], env });
  const pid = child.pid as number;
  await nextMessage(child);
  const before = await cpuSeconds(pid);
  child.send({ count: WIDGETS });
  const { milliseconds } = (await nextMessage(child)) as { milliseconds: number };
  const cpuMicros = (((await cpuSeconds(pid)) - before) * 1e6) / WIDGETS;
  const memory = await memoryMiB(pid);
  const exited = once(child, 'exit');
  child.disconnect();
  await exited;
  return { perSecond: (WIDGETS * 1000) / milliseconds, cpuMicros, memoryMiB: memory };
}

function summarise(results: ServerResult[], { kubeconfig }: BenchContext) {
  const rows = results.flatMap(({ server, runs, ratio }) =>
    NAMES.map((name, index) => {
      const of = (key: keyof Run) => spread(runs[name].map((run) => run[key]));
      const { median, lowest, highest } = of('perSecond');
      return [
        index === 0 ? server : '',
        name,
        whole(median),
        `${whole(lowest)} – ${whole(highest)}`,
        index === 0 ? '' : decimals(ratio.median, 1),
        whole(of('cpuMicros').median),
        whole(of('memoryMiB').median),
      ];
    }),
  );
  const head = ['API server', 'operator', 'reconciles/s', 'spread', 'slipway ÷ it', 'CPU µs', 'memory MiB'];
  const targets = results.map(({ server, ratio }) => ({
    what: `reconciles on ${server}: slipway ÷ @dot-i/k8s-operator`,
    value: ratio.median,
    target: AT_LEAST_OF_PEER,
    bound: 'at least' as const,
  }));
  const skipped = kubeconfig ? [] : [`${REAL_SERVER}: set KUBECONFIG to one`];
  return { tables: [{ title: `Reconciling ${WIDGETS} resources`, head, rows }], targets, skipped, data: results };
}
