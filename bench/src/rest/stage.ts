/**
 * Starts the contestants of `rest`: one project's database with its rows, every server of that database, and the
 * servers of a copy.
 */
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import type { BenchContext, Closers } from '../bench.js';
import { sampleOf } from '../measure/request-template.js';
import { nextMessage, startProgram } from '../peers.js';
import { Platform } from '../platform.js';
import { fill, LITE_ROWS_PER_REQUEST, onLoopback, type Project, SCHEMA, type Session } from './dataset.js';
import { startLiteOnSqlite } from './lite.js';
import { OPERATION_NAMES, OPERATIONS, type OperationName } from './operations.js';
import { findPgbench, Pgbench } from './pgbench.js';
import { Postrust, type PostrustSettings } from './postrust.js';
import { postrustBinary } from './postrust-build.js';
import { type PlannedStatement, planOf, record } from './recording.js';

export const SLIPWAY = 'slipway';
export const BARE = 'bare node + pg';
export const LITE = '@supabase/lite';
export const POSTRUST = 'postrust-server';
export const PGBENCH = 'pgbench';

/** The server of a contestant. */
export interface Server {
  name: string;
  project: Project;
  session: Session;
  /** Roots of process trees whose processor time is measured. */
  processes(): Record<string, number>;
  /** Sets the number of its connections to Postgres, for a contestant with such a setting. */
  setPoolSize?(size: number): Promise<unknown>;
}

export interface Stage {
  slipway: Server;
  bare: Server;
  /** Programs of other projects, which may not support every request. */
  peers: Server[];
  pgbench: Pgbench | undefined;
  postgres: number;
  statements: Record<string, PlannedStatement[]>;
  /** Absent contestants, and what each needs. */
  missing: string[];
}

export async function setUp({ say, environment }: BenchContext, closers: Closers): Promise<Stage> {
  const built = await postrustBinary(environment, say);
  say('starting a platform and filling a project');
  const platform = await Platform.start();
  closers.push(() => platform.close());
  const view = await platform.createProject();
  await platform.query(view, SCHEMA);
  const project = platform.served(view);
  const session = await fill(project);
  await platform.query(view, 'analyze todos, albums, tracks');
  const login = await platform.authenticatorLogin(view);
  const { dataplane, postgres, operator } = await platform.programs();
  if (!dataplane || !postgres || !operator) throw new Error('a program of the platform does not run');
  const scripts = await recordAll(platform, login.user, project, session);
  const statements = Object.fromEntries(OPERATION_NAMES.map((name) => [name, scripts[name].statements]));
  await liftConnectionLimit(platform, login.user, operator, closers);
  const binary = await findPgbench(environment.PATH ?? '');
  const pgbench = binary ? await Pgbench.create(binary, login, scripts) : undefined;
  if (pgbench) closers.push(() => pgbench.close());
  const slipway = { name: SLIPWAY, project, session, processes: () => ({ server: dataplane, postgres }) };
  const { accessToken } = session;
  const bare = await startBare({ login, accessToken, statements }, session, postgres, closers);
  const peers = [await startLite(say, closers)];
  if ('binary' in built) {
    const settings = { binary: built.binary, login, jwtSecret: await platform.jwtSecret(view) };
    peers.push(await startPostrust(settings, session, postgres, closers));
  }
  const missing = [
    ...(pgbench ? [] : [`${PGBENCH}: install postgresql-contrib, which brings it`]),
    ...('absent' in built ? [`${POSTRUST}: ${built.absent}`] : []),
  ];
  return { slipway, bare, peers, pgbench, postgres, statements, missing };
}

/**
 * Removes the connection limit of the project's role, as contestants may need more connections than the platform gives
 * a project. The operator would restore the limit, so it is stopped until the end.
 */
async function liftConnectionLimit(platform: Platform, role: string, operator: number, closers: Closers) {
  process.kill(operator, 'SIGSTOP');
  closers.push(async () => process.kill(operator, 'SIGCONT'));
  const admin = new Client(await platform.running.admin());
  await admin.connect();
  await admin.query(`alter role ${admin.escapeIdentifier(role)} connection limit -1`);
  await admin.end();
}

async function startBare(settings: object, session: Session, postgres: number, closers: Closers): Promise<Server> {
  const script = fileURLToPath(new URL('./bare-server.js', import.meta.url));
  const { child, pid, port, close } = await startProgram(script, settings);
  closers.push(close);
  const setPoolSize = (poolSize: number) => {
    child.send({ poolSize });
    return nextMessage(child);
  };
  const processes = () => ({ server: pid, postgres });
  return { name: BARE, project: onLoopback({ port }), session, processes, setPoolSize };
}

async function startLite(say: (text: string) => void, closers: Closers): Promise<Server> {
  say('filling @supabase/lite');
  const lite = await startLiteOnSqlite(SCHEMA);
  closers.push(() => lite.close());
  const project = onLoopback(lite);
  const session = await fill(project, LITE_ROWS_PER_REQUEST);
  return { name: LITE, project, session, processes: () => ({ server: lite.pid }) };
}

async function startPostrust(
  settings: PostrustSettings,
  session: Session,
  postgres: number,
  closers: Closers,
): Promise<Server> {
  const postrust = await Postrust.start(settings);
  closers.push(() => postrust.close());
  const processes = () => ({ server: postrust.pid, postgres });
  const setPoolSize = (size: number) => postrust.setPoolSize(size);
  return { name: POSTRUST, project: onLoopback(postrust, ''), session, processes, setPoolSize };
}

const SAMPLE_ID = 7123;
const SAMPLE_UNIQUE = 1;

/** Records the data plane's statements for each kind of request, with the places where requests differ. */
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
