/**
 * Benchmark of realtime: a broadcast to 1,000 sockets, beside bare `ws` fan-out, in turn; and the time from a committed
 * row to its subscribers under row-level security, who are one user or many.
 */

import { createHmac } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { GROUP, VERSION } from '@slipway/crds';
import type { ProjectView } from '@slipway/e2e/management.js';
import { namespaceOf, SECRETS } from '@slipway/installation';
import type { Secret } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';
import { type Bench, type BenchContext, type BenchResult, type Closers, closing } from '../bench.js';
import { median } from '../measure/rounds.js';
import { startProgram } from '../peers.js';
import { Platform } from '../platform.js';
import { decimals, whole } from '../report/table.js';
import { type Deliveries, Subscribers } from './subscribers.js';

export const SOCKETS = 1000;
export const PER_SECOND = 10;
const AT_LEAST_OF_BARE = 0.6;
const AT_MOST_OF_BARE_P95 = 1.5;
const SLIPWAY = 'slipway';
const BARE = 'bare ws';

/** The message that subscribes a socket to a broadcast. */
export const JOIN = JSON.stringify(['1', '1', 'realtime:bench', 'phx_join', { config: {} }]);

export const realtime: Bench = closing(measure);

async function measure(context: BenchContext, closers: Closers): Promise<BenchResult> {
  const { plan, say, only } = context;
  say('starting a platform');
  const platform = await Platform.start();
  closers.push(() => platform.close());
  const project = await platform.createProject();
  await onLargePlan(platform, project);
  await platform.query(
    project,
    `create table public.bench_changes (id bigint generated always as identity primary key, body text);
     alter table public.bench_changes enable row level security;
     create policy everyone on public.bench_changes for select to authenticated using (auth.uid() is not null);
     alter publication supabase_realtime add table public.bench_changes`,
  );
  const url = socketUrl(platform, project);
  const broadcasts = only === 'changes' ? undefined : await measureBroadcasts(url, context, closers);
  const changes = only === 'broadcast' ? [] : await measureChanges(platform, project, url, context);
  const tables = [...(broadcasts ? [broadcasts.table] : []), ...(changes.length > 0 ? [changesTable(changes)] : [])];
  return {
    tables,
    targets: broadcasts?.targets ?? [],
    skipped: [],
    data: { plan, broadcasts: broadcasts?.data, changes },
  };
}

async function measureBroadcasts(url: string, { plan, say }: BenchContext, closers: Closers) {
  const bare = await startProgram(fileURLToPath(new URL('./bare-server.js', import.meta.url)), {});
  closers.push(() => bare.close());
  say(`${SOCKETS} sockets at each; ${plan.rounds} rounds of ${plan.seconds} s of each kind`);
  const job = { sockets: SOCKETS, waitsForChanges: false };
  const subscribers = {
    [SLIPWAY]: await Subscribers.open({ ...job, url, joins: [JOIN] }),
    [BARE]: await Subscribers.open({ ...job, url: `ws://127.0.0.1:${bare.port}`, joins: [] }),
  };
  closers.push(() => Object.values(subscribers).forEach((each) => each.close()));
  const seen: Record<string, { flood: Deliveries[]; paced: Deliveries[] }> = {};
  for (const name of [SLIPWAY, BARE] as const) {
    seen[name] = { flood: [], paced: [] };
    await subscribers[name].run({ kind: 'flood', seconds: plan.warmUpSeconds });
  }
  for (let round = 0; round < plan.rounds; round++) {
    for (const kind of ['flood', 'paced'] as const) {
      for (const name of [SLIPWAY, BARE] as const) {
        const result = await subscribers[name].run({ kind, seconds: plan.seconds, perSecond: PER_SECOND });
        if (result.missing !== 0) throw new Error(`${name}: ${result.missing} deliveries are missing`);
        seen[name]?.[kind].push(result);
      }
    }
  }
  // The realtime service closes a socket that sends nothing for a minute.
  for (const each of Object.values(subscribers)) each.close();
  const ratios = (kind: 'flood' | 'paced', of: (one: Deliveries) => number) =>
    median((seen[SLIPWAY]?.[kind] ?? []).map((one, at) => of(one) / of(seen[BARE]?.[kind][at] as Deliveries)));
  const throughput = ratios('flood', (one) => one.perSecond);
  const p95 = ratios('paced', (one) => one.p95);
  const middle = (name: string, kind: 'flood' | 'paced', of: (one: Deliveries) => number) =>
    median((seen[name]?.[kind] ?? []).map(of));
  return {
    table: {
      title: `Broadcast to ${SOCKETS} sockets`,
      head: ['who', 'deliveries/s', `p50 ms at ${PER_SECOND}/s`, `p95 ms at ${PER_SECOND}/s`],
      rows: [SLIPWAY, BARE].map((name) => [
        name,
        whole(middle(name, 'flood', (one) => one.perSecond)),
        decimals(
          middle(name, 'paced', (one) => one.p50),
          1,
        ),
        decimals(
          middle(name, 'paced', (one) => one.p95),
          1,
        ),
      ]),
    },
    targets: [
      {
        what: `broadcast: ${SLIPWAY} ÷ ${BARE}`,
        value: throughput,
        target: AT_LEAST_OF_BARE,
        bound: 'at least' as const,
      },
      {
        what: `broadcast p95: ${SLIPWAY} ÷ ${BARE}`,
        value: p95,
        target: AT_MOST_OF_BARE_P95,
        bound: 'at most' as const,
      },
    ],
    data: seen,
  };
}

interface MeasuredChanges extends Deliveries {
  subscribers: number;
  users: string;
}

async function measureChanges(
  platform: Platform,
  project: ProjectView,
  url: string,
  { plan, say }: BenchContext,
): Promise<MeasuredChanges[]> {
  const database = await platform.authenticatorLogin(project);
  const secret = await jwtSecret(platform, project);
  const measured: MeasuredChanges[] = [];
  for (const count of [100, 1000]) {
    for (const users of ['one', 'each another'] as const) {
      say(`changes to ${count} subscribers, ${users} user`);
      const joins = Array.from({ length: users === 'one' ? 1 : count }, () => joinWithChanges(secret));
      const subscribers = await Subscribers.open({ url, sockets: count, joins, waitsForChanges: true, database });
      try {
        await subscribers.run({ kind: 'changes', seconds: plan.warmUpSeconds, perSecond: PER_SECOND });
        const result = await subscribers.run({
          kind: 'changes',
          seconds: plan.seconds * plan.rounds,
          perSecond: PER_SECOND,
        });
        if (result.missing !== 0) throw new Error(`${result.missing} changes are missing`);
        measured.push({ subscribers: count, users, ...result });
      } finally {
        subscribers.close();
      }
    }
  }
  return measured;
}

const changesTable = (changes: MeasuredChanges[]) => ({
  title: `From insert to socket, ${PER_SECOND} rows/s, under row-level security`,
  head: ['subscribers', 'users', 'p50 ms', 'p95 ms'],
  rows: changes.map(({ subscribers, users, p50, p95 }) => [
    whole(subscribers),
    users,
    decimals(p50, 1),
    decimals(p95, 1),
  ]),
});

function joinWithChanges(secret: string): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = { role: 'authenticated', sub: crypto.randomUUID(), exp: Math.floor(Date.now() / 1000) + 3600 };
  const text = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`;
  const access_token = `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
  const postgres_changes = [{ event: 'INSERT', schema: 'public', table: 'bench_changes' }];
  return JSON.stringify(['1', '1', 'realtime:changes', 'phx_join', { access_token, config: { postgres_changes } }]);
}

export const socketUrl = (platform: Platform, project: ProjectView) =>
  `${platform.served(project).baseUrl.replace('http', 'ws')}/realtime/v1/websocket` +
  `?apikey=${project.anon_key}&vsn=2.0.0`;

/** A thousand sockets exceed the free plan's limit. */
export async function onLargePlan(platform: Platform, { ref }: ProjectView): Promise<void> {
  const path = `/apis/${GROUP}/${VERSION}/projects/${ref}`;
  await withClient(platform.running.kubeconfig, (client) => client.patch(path, { spec: { plan: 'team' } }));
}

async function jwtSecret(platform: Platform, { ref }: ProjectView): Promise<string> {
  const { name, jwtSecret: key } = SECRETS.keys;
  const path = `/api/v1/namespaces/${namespaceOf(ref)}/secrets/${name}`;
  const secret = await withClient(platform.running.kubeconfig, (client) => client.get<Secret>(path));
  return Buffer.from(secret.data?.[key] ?? '', 'base64').toString();
}
