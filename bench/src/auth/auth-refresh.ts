/**
 * Benchmark of session refreshes: each of 32 users sends the refresh token of its last response. Slipway and
 * @supabase/lite take turns.
 */
import { type Bench, type BenchContext, type Closers, closing } from '../bench.js';
import { LoadGenerator, type LoadJob } from '../measure/load.js';
import { type Contestant, interleave, ratioOf } from '../measure/rounds.js';
import { Platform } from '../platform.js';
import { decimals, whole } from '../report/table.js';
import { call, onLoopback, type Project, SCHEMA, signUp } from '../rest/dataset.js';
import { startLiteOnSqlite } from '../rest/lite.js';

const AT_LEAST_OF_LITE = 3;
const SLIPWAY = 'slipway';
const LITE = '@supabase/lite';

export const authRefresh: Bench = closing(measure);

async function measure({ plan, say }: BenchContext, closers: Closers) {
  say(`starting a platform and @supabase/lite, and signing ${plan.connections} users up at each`);
  const platform = await Platform.start();
  closers.push(() => platform.close());
  const lite = await startLiteOnSqlite(SCHEMA);
  closers.push(() => lite.close());
  const projects = {
    [SLIPWAY]: platform.served(await platform.createProject()),
    [LITE]: onLoopback(lite),
  };
  const { dataplane, postgres } = await platform.programs();
  if (!dataplane || !postgres) throw new Error('the platform runs no data plane or no Postgres');
  const processes = { [SLIPWAY]: { server: dataplane, postgres }, [LITE]: { server: lite.pid } };
  const contestants: Contestant[] = [];
  for (const name of [SLIPWAY, LITE] as const) {
    await verifyRotation(projects[name]);
    const generator = new LoadGenerator(await tokenChains(projects[name], plan.connections));
    closers.push(() => generator.close());
    contestants.push({ name, run: (run) => generator.run(run), processes: processes[name] });
  }
  say(`${plan.rounds} rounds of ${plan.seconds} s`);
  const measured = await interleave(contestants, plan);
  const { ratio } = ratioOf(measured, SLIPWAY, LITE);
  const table = {
    title: 'Refreshing a session',
    head: ['who', 'refreshes/s', 'spread', 'p50 ms', 'p95 ms', 'CPU µs server', 'CPU µs Postgres'],
    rows: measured.map(({ name, perSecond, p50, p95, cpuMicros }) => [
      name,
      whole(perSecond.median),
      `${whole(perSecond.lowest)} – ${whole(perSecond.highest)}`,
      decimals(p50 ?? Number.NaN, 1),
      decimals(p95 ?? Number.NaN, 1),
      ...[cpuMicros.server, cpuMicros.postgres].map((micros) => (micros === undefined ? '' : whole(micros))),
    ]),
  };
  const what = `auth refresh: ${SLIPWAY} ÷ ${LITE}`;
  const targets = [{ what, value: ratio.median, target: AT_LEAST_OF_LITE, bound: 'at least' as const }];
  return { tables: [table], targets, skipped: [], data: { measured, ratio } };
}

/** Checks that a refresh returns a new access token of the same user, and another refresh token. */
async function verifyRotation(project: Project): Promise<void> {
  const session = await signUp(project);
  const body = { refresh_token: session.refreshToken };
  const fresh = await call(project, { method: 'POST', path: '/auth/v1/token?grant_type=refresh_token', body });
  if (fresh.user.id !== session.userId) throw new Error('a refresh answered with another user');
  if (fresh.refresh_token === session.refreshToken) throw new Error('a refresh did not rotate the refresh token');
  const user = await call(project, { method: 'GET', path: '/auth/v1/user', token: fresh.access_token });
  if (user.id !== session.userId) throw new Error('the refreshed token is not its user’s');
}

async function tokenChains(project: Project, count: number): Promise<LoadJob> {
  const refreshTokens: string[] = [];
  for (let index = 0; index < count; index++) refreshTokens.push((await signUp(project)).refreshToken);
  const scenario = { kind: 'token-chain' as const, apikey: project.anonKey, refreshTokens };
  return { baseUrl: project.baseUrl, scenario, expectedStatuses: [200] };
}
