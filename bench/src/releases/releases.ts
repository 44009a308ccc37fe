/**
 * Compares this checkout's platform with an earlier one (`--before=folder`, built there). Both run on this machine at
 * once, with requests in turn: `rest`, `functions`, `provision`, `storage` and `realtime`. The result is the median of
 * the rounds' ratios of the newer to the earlier platform.
 */
import path from 'node:path';
import type { ProjectView } from '@slipway/e2e/management.js';
import { type Bench, type BenchContext, chosen } from '../bench.js';
import { coldStart, HANDLER } from '../functions/functions.js';
import { LoadGenerator, type LoadJob } from '../measure/load.js';
import { median, spread } from '../measure/rounds.js';
import { Platform } from '../platform.js';
import { JOIN, onLargePlan, PER_SECOND, SOCKETS, socketUrl } from '../realtime/realtime.js';
import { Subscribers, type SubscribersRun } from '../realtime/subscribers.js';
import { decimals } from '../report/table.js';
import { fill, type Project, SCHEMA, type Session } from '../rest/dataset.js';
import { loadJob, OPERATIONS } from '../rest/operations.js';
import { openBucket } from '../storage/bucket.js';
import { Transfers } from '../storage/transfers.js';

const AT_LEAST = 0.95;

/** One of the two platforms, with a project that has rows, a user and a function. */
interface Side {
  platform: Platform;
  view: ProjectView;
  project: Project;
  session: Session;
  bucket: Bucket;
}

type Bucket = Awaited<ReturnType<typeof openBucket>>;

/** A measurement that is repeated on each side. */
interface Probe {
  measure(seconds: number): Promise<number>;
  close(): void;
}

interface Part {
  name: string;
  unit: string;
  better: 'more' | 'less';
  probe(side: Side, connections: number): Promise<Probe>;
}

const load = (job: LoadJob, connections: number, of: 'perSecond' | 'p50'): Probe => {
  const generator = new LoadGenerator(job);
  const measure = async (seconds: number) => {
    const sample = await generator.run({ connections, seconds });
    if (sample.failures > 0) throw new Error(`${sample.failures} wrong answers, the first: ${sample.firstFailure}`);
    return sample[of] as number;
  };
  return { measure, close: () => generator.close() };
};

const FUNCTION = 'bench';
const functionHeaders = ({ project }: Side) => ({ authorization: `Bearer ${project.anonKey}` });
const functionJob = (side: Side): LoadJob => ({
  baseUrl: side.project.baseUrl,
  scenario: {
    kind: 'template',
    template: { method: 'POST', path: `/functions/v1/${FUNCTION}`, headers: functionHeaders(side), body: '{}' },
  },
  expectedStatuses: [200],
});

/** Seconds of a measurement without a length of its own. */
const times = (once: () => Promise<number>): Probe => ({ measure: once, close: () => undefined });

async function broadcast({ platform, view }: Side, run: (seconds: number) => SubscribersRun, of: 'perSecond' | 'p95') {
  const url = socketUrl(platform, view);
  const subscribers = await Subscribers.open({ url, sockets: SOCKETS, joins: [JOIN], waitsForChanges: false });
  const measure = async (seconds: number) => {
    const deliveries = await subscribers.run(run(seconds));
    if (deliveries.missing !== 0) throw new Error(`${deliveries.missing} deliveries are missing`);
    return deliveries[of];
  };
  return { measure, close: () => subscribers.close() };
}

const PARTS: readonly Part[] = [
  ...OPERATIONS.map(
    (operation): Part => ({
      name: `rest: ${operation.name}`,
      unit: 'requests/s',
      better: 'more',
      probe: async ({ project, session }, connections) => {
        await operation.verify(project, session);
        return load(loadJob(operation, project, session), connections, 'perSecond');
      },
    }),
  ),
  {
    name: 'functions: warm calls',
    unit: 'calls/s',
    better: 'more',
    probe: async (side, connections) => load(functionJob(side), connections, 'perSecond'),
  },
  {
    name: 'functions: p50 of one caller',
    unit: 'ms',
    better: 'less',
    probe: async (side) => load(functionJob(side), 1, 'p50'),
  },
  {
    name: 'functions: cold start',
    unit: 'ms',
    better: 'less',
    probe: async (side) =>
      times(() => coldStart(`${side.project.baseUrl}/functions/v1/${FUNCTION}`, functionHeaders(side))),
  },
  {
    name: 'provision: to healthy',
    unit: 'ms',
    better: 'less',
    probe: async ({ platform }) =>
      times(async () => {
        const begun = performance.now();
        await platform.createProject();
        return performance.now() - begun;
      }),
  },
  ...(['upload', 'download'] as const).map(
    (direction): Part => ({
      name: `storage: ${direction} 10 KB`,
      unit: 'objects/s',
      better: 'more',
      probe: async ({ bucket }, connections) => {
        const transfers = new Transfers({ ...bucket, direction, bytes: 10_000 });
        const measure = async (seconds: number) => {
          const { perSecond, failures, firstFailure } = await transfers.run({ connections, seconds });
          if (failures > 0) throw new Error(`${failures} wrong answers, the first: ${firstFailure}`);
          return perSecond;
        };
        return { measure, close: () => transfers.close() };
      },
    }),
  ),
  {
    name: 'realtime: broadcast',
    unit: 'deliveries/s',
    better: 'more',
    probe: (side) => broadcast(side, (seconds) => ({ kind: 'flood', seconds }), 'perSecond'),
  },
  {
    name: `realtime: p95 at ${PER_SECOND}/s`,
    unit: 'ms',
    better: 'less',
    probe: (side) => broadcast(side, (seconds) => ({ kind: 'paced', seconds, perSecond: PER_SECOND }), 'p95'),
  },
];

export const releases: Bench = async (context) => {
  const { before, say, only } = context;
  if (before === undefined) throw new Error('--before=folder names the checkout to measure against, built');
  const parts = chosen(PARTS, ({ name }) => name, only);
  const sides: Side[] = [];
  try {
    say('starting both platforms, and filling a project of each');
    sides.push(await start(path.resolve(before, 'slipway/dist/main.js')), await start(undefined));
    const measured: Measured[] = [];
    for (const part of parts) measured.push(await compare(part, sides as [Side, Side], context));
    return summarise(measured);
  } finally {
    for (const { platform } of sides) await platform.close();
  }
};

async function start(main: string | undefined): Promise<Side> {
  const platform = await Platform.start({ SLIPWAY_SERVICES_SHARED: 'functions,storage' }, main);
  try {
    const view = await platform.createProject();
    await onLargePlan(platform, view);
    await platform.query(view, SCHEMA);
    const project = platform.served(view);
    const session = await fill(project);
    await platform.query(view, 'analyze todos, albums, tracks');
    await platform.deployFunction(view, FUNCTION, `Deno.serve(${HANDLER});`);
    return { platform, view, project, session, bucket: await openBucket(platform, view) };
  } catch (error) {
    await platform.close();
    throw error;
  }
}

interface Measured {
  part: Part;
  before: number[];
  now: number[];
  /** Above 1: the newer platform is better. */
  ratios: number[];
}

/** Each round begins with the other side: what the first side leaves behind then disturbs both alike. */
async function compare(part: Part, sides: [Side, Side], { plan, say }: BenchContext): Promise<Measured> {
  say(`${part.name}: ${plan.rounds} rounds of ${plan.seconds} s of each`);
  const probes: Probe[] = [];
  try {
    for (const side of sides) probes.push(await part.probe(side, plan.connections));
    for (const probe of probes) await probe.measure(plan.warmUpSeconds);
    const seen: [number[], number[]] = [[], []];
    for (let round = 0; round < plan.rounds; round++) {
      for (const at of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
        seen[at].push(await (probes[at] as Probe).measure(plan.seconds));
      }
    }
    const [before, now] = seen;
    const ratios = now.map((value, round) => {
      const ratio = value / (before[round] as number);
      return part.better === 'more' ? ratio : 1 / ratio;
    });
    return { part, before, now, ratios };
  } finally {
    for (const probe of probes) probe.close();
  }
}

function summarise(measured: Measured[]) {
  const rows = measured.map(({ part, before, now, ratios }) => {
    const { median: middle, lowest, highest } = spread(ratios);
    const values = [before, now].map((all) => decimals(median(all), 1));
    return [part.name, part.unit, ...values, decimals(middle), `${decimals(lowest)} – ${decimals(highest)}`];
  });
  const targets = measured.map(({ part, ratios }) => ({
    what: `${part.name}: now against before`,
    value: median(ratios),
    target: AT_LEAST,
    bound: 'at least' as const,
  }));
  return {
    tables: [
      {
        title: 'This checkout beside the one before (a ratio above 1: this one is better)',
        head: ['what', 'unit', 'before', 'now', 'ratio', 'spread'],
        rows,
      },
    ],
    targets,
    skipped: [],
    data: measured.map(({ part, ...numbers }) => ({ part: part.name, ...numbers })),
  };
}
