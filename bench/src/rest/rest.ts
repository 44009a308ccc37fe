/**
 * REST requests of one user under row-level security: Slipway, the bare server, @supabase/lite and pgbench, in turn. All but lite run on the
 * same project's database in the same Postgres, as the same login.
 */
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { type Bench, type BenchContext, type BenchResult, chosen } from '../bench.js';
import { LoadGenerator, type LoadRun } from '../measure/load.js';
import { sampleOf } from '../measure/request-template.js';
import { type Contestant, interleave, type Measured, type Ratio, ratioOf } from '../measure/rounds.js';
import { nextMessage, type Program, startProgram } from '../peers.js';
import { Platform } from '../platform.js';
import { fill, LITE_ROWS_PER_REQUEST, type Project, SCHEMA, type Session } from './dataset.js';
import { startLiteOnSqlite } from './lite.js';
import { loadJob, OPERATION_NAMES, OPERATIONS, type Operation, type OperationName } from './operations.js';
import { findPgbench, Pgbench } from './pgbench.js';
import { type PlannedStatement, planOf, record } from './recording.js';
import { restTable } from './rest-table.js';

export const SLIPWAY = 'slipway';
export const BARE = 'bare node + pg';
export const LITE = '@supabase/lite';
export const PGBENCH = 'pgbench';

const AT_LEAST_OF_BARE = 0.6;
const AT_LEAST_OF_LITE = 4;
const POOL_SIZES = [2, 4, 8, 16, 32];
const POOL_TRIAL_SECONDS = 1;

export interface OperationResult {
  operation: string;
  poolSize: number;
  measured: Measured[];
  ratios: Ratio[];
}

interface Stage {
  slipway: Project;
  session: Session;
  dataplane: number;
  postgres: number;
  bare: Program;
  lite: Program;
  liteSession: Session;
  pgbench: Pgbench | undefined;
  /** Lets the login have more connections than the platform gives a project; the platform puts its limit back now and then. */
  liftConnectionLimit(): Promise<unknown>;
  statements: Record<string, PlannedStatement[]>;
}

export const rest: Bench = async (context) => {
  const closers: (() => Promise<unknown>)[] = [];
  const operations = chosen(OPERATIONS, ({ name }) => name, context.only);
  try {
    const stage = await setUp(context, closers);
    const results: OperationResult[] = [];
    for (const operation of operations) results.push(await measure(operation, stage, context));
    return summarise(results, stage);
  } finally {
    for (const close of closers.reverse()) await close();
  }
};

async function setUp({ say, environment }: BenchContext, closers: (() => Promise<unknown>)[]): Promise<Stage> {
  say('starting a platform and filling a project');
  const platform = await Platform.start();
  closers.push(() => platform.close());
  const project = await platform.createProject();
  await platform.query(project, SCHEMA);
  const slipway = platform.served(project);
  const session = await fill(slipway);
  await platform.query(project, 'analyze todos');
  const login = await platform.authenticatorLogin(project);
  const scripts = await recordAll(platform, login.user, slipway, session);
  const admin = new Client(await platform.running.admin());
  await admin.connect();
  closers.push(() => admin.end());
  const liftConnectionLimit = () => admin.query(`alter role ${admin.escapeIdentifier(login.user)} connection limit -1`);
  const statements = Object.fromEntries(OPERATION_NAMES.map((name) => [name, scripts[name].statements]));
  const { accessToken } = session;
  const bare = await startProgram(fileURLToPath(new URL('./bare-server.js', import.meta.url)), {
    login,
    accessToken,
    statements,
  });
  closers.push(() => bare.close());
  const binary = await findPgbench(environment.PATH ?? '');
  const pgbench = binary ? await Pgbench.create(binary, login, scripts) : undefined;
  if (pgbench) closers.push(() => pgbench.close());
  say('filling @supabase/lite');
  const lite = await startLiteOnSqlite(SCHEMA);
  closers.push(() => lite.close());
  const liteSession = await fill(onLoopback(lite), LITE_ROWS_PER_REQUEST);
  const { dataplane, postgres } = await platform.programs();
  if (!dataplane || !postgres) throw new Error('the platform runs no data plane or no Postgres');
  return { slipway, session, dataplane, postgres, bare, lite, liteSession, pgbench, liftConnectionLimit, statements };
}

const SAMPLE_ID = 7123;
const SAMPLE_UNIQUE = 1;

/** What the data plane sends for each kind of request, with the places where one request differs from the next. */
async function recordAll(platform: Platform, role: string, project: Project, session: Session) {
  const scripts = {} as Record<OperationName, { statements: PlannedStatement[]; body: string | undefined }>;
  for (const { name, template, expectedStatuses } of OPERATIONS) {
    const request = template(project, session);
    const { method, path, headers, body } = sampleOf(request, SAMPLE_ID, SAMPLE_UNIQUE);
    const recorded = await record(platform, role, async () => {
      const response = await fetch(project.baseUrl + path, {
        method,
        headers,
        ...(body === undefined ? {} : { body }),
      });
      const text = await response.text();
      if (!expectedStatuses.includes(response.status)) throw new Error(`${name} answered ${response.status}: ${text}`);
    });
    const sample = { id: SAMPLE_ID, ...(body === undefined ? {} : { body }) };
    scripts[name] = { statements: planOf(recorded, sample), body: request.body };
  }
  return scripts;
}

const onLoopback = ({ port }: Program): Project => ({ baseUrl: `http://127.0.0.1:${port}`, anonKey: 'none' });

async function measure(operation: Operation, stage: Stage, { plan, say }: BenchContext): Promise<OperationResult> {
  const { slipway, session, bare, lite, liteSession, pgbench, liftConnectionLimit } = stage;
  await operation.verify(slipway, session);
  await operation.verify(onLoopback(bare), session, slipway);
  await operation.verify(onLoopback(lite), liteSession);
  const generators = {
    slipway: new LoadGenerator(loadJob(operation, slipway, session)),
    bare: new LoadGenerator(loadJob(operation, onLoopback(bare), session)),
    lite: new LoadGenerator(loadJob(operation, onLoopback(lite), liteSession)),
  };
  try {
    const poolSize = await bestPoolSize(stage, generators.bare, plan.connections);
    say(
      `${operation.name}: the bare server is fastest on ${poolSize} connections; ${plan.rounds} rounds of ${plan.seconds} s`,
    );
    const { dataplane, postgres } = stage;
    const contestants: Contestant[] = [
      { name: SLIPWAY, run: (run) => generators.slipway.run(run), processes: { server: dataplane, postgres } },
      { name: BARE, run: (run) => generators.bare.run(run), processes: { server: bare.pid, postgres } },
      { name: LITE, run: (run) => generators.lite.run(run), processes: { server: lite.pid } },
    ];
    if (pgbench) {
      const run = async (asked: LoadRun) => {
        await liftConnectionLimit();
        return await pgbench.run(operation.name, asked);
      };
      contestants.push({ name: PGBENCH, run, processes: { postgres } });
    }
    const measured = await interleave(contestants, plan);
    const ratios = [
      ratioOf(measured, SLIPWAY, BARE, AT_LEAST_OF_BARE),
      ratioOf(measured, SLIPWAY, LITE, AT_LEAST_OF_LITE),
      ...(pgbench ? [ratioOf(measured, SLIPWAY, PGBENCH), ratioOf(measured, BARE, PGBENCH)] : []),
    ];
    return { operation: operation.name, poolSize, measured, ratios };
  } finally {
    for (const generator of Object.values(generators)) generator.close();
  }
}

/** Leaves the bare server on the number of connections that it was fastest with. */
async function bestPoolSize(
  { bare, liftConnectionLimit }: Stage,
  generator: LoadGenerator,
  connections: number,
): Promise<number> {
  const setPoolSize = async (poolSize: number) => {
    await liftConnectionLimit();
    bare.child.send({ poolSize });
    await nextMessage(bare.child);
  };
  let best = { poolSize: 0, perSecond: 0 };
  for (const poolSize of POOL_SIZES) {
    await setPoolSize(poolSize);
    const { perSecond } = await generator.run({ connections, seconds: POOL_TRIAL_SECONDS });
    if (perSecond > best.perSecond) best = { poolSize, perSecond };
  }
  await setPoolSize(best.poolSize);
  return best.poolSize;
}

function summarise(results: OperationResult[], { pgbench, statements }: Stage): BenchResult {
  const targets = results.flatMap(({ operation, ratios }) =>
    ratios.flatMap(({ of, to, ratio, target }) =>
      target === undefined
        ? []
        : [{ what: `${operation}: ${of} ÷ ${to}`, value: ratio.median, target, bound: 'at least' as const }],
    ),
  );
  const skipped = pgbench ? [] : ['pgbench: install postgresql-contrib, which brings it'];
  return { tables: [restTable(results)], targets, skipped, data: { results, statements: textsOf(statements) } };
}

/** The values are tokens and keys of a platform that is gone, and say nothing. */
const textsOf = (statements: Stage['statements']) =>
  Object.fromEntries(Object.entries(statements).map(([name, list]) => [name, list.map(({ text }) => text)]));
