/** Measures which driver of @supabase/lite is faster for the requests of `rest`: SQLite or Postgres. */
import { randomBytes } from 'node:crypto';
import { startTestPostgres } from '@slipway/postgres/testing.js';
import { Client } from 'pg';
import type { Bench } from '../bench.js';
import { LoadGenerator } from '../measure/load.js';
import { interleave, ratioOf } from '../measure/rounds.js';
import { type Program, startLite } from '../peers.js';
import { decimals, whole } from '../report/table.js';
import { fill, LITE_ROWS_PER_REQUEST, onLoopback, SCHEMA, type Session } from './dataset.js';
import { startLiteOnSqlite } from './lite.js';
import { loadJob, OPERATIONS } from './operations.js';

/** SQL for the roles that lite's migrations would create. On Postgres, lite applies no migrations. */
const ROLES = 'create role anon; create role authenticated; create role service_role bypassrls;';
const GRANTS = 'grant usage on schema auth to public; grant all on todos, albums, tracks to authenticated;';

export const liteDrivers: Bench = async ({ plan, say }) => {
  const postgres = await startTestPostgres();
  const programs: Record<string, Program> = {};
  try {
    say('filling @supabase/lite on SQLite and on Postgres');
    programs.sqlite = await startLiteOnSqlite(SCHEMA);
    programs.postgres = await startLite({
      driver: 'postgres',
      url: await emptyDatabase(postgres.admin()),
      schema: ROLES + SCHEMA + GRANTS,
      jwtSecret: randomBytes(32).toString('hex'),
    });
    const rows: string[][] = [];
    const data: unknown[] = [];
    const stages = Object.entries(programs).map(([name, program]) => {
      return { name, project: onLoopback(program), pid: program.pid };
    });
    const sessions = new Map<string, Session>();
    for (const { name, project } of stages) {
      sessions.set(name, await fill(project, name === 'sqlite' ? LITE_ROWS_PER_REQUEST : undefined));
    }
    for (const operation of OPERATIONS) {
      const contestants = stages.map(({ name, project, pid }) => {
        const session = sessions.get(name);
        if (!session) throw new Error(`nobody signed up at ${name}`);
        const generator = new LoadGenerator(loadJob(operation, project, session));
        return { name, generator, run: generator.run.bind(generator), processes: { server: pid } };
      });
      const measured = await interleave(contestants, plan);
      for (const { generator } of contestants) generator.close();
      const { ratio } = ratioOf(measured, 'sqlite', 'postgres');
      rows.push([operation.name, ...measured.map(({ perSecond }) => whole(perSecond.median)), decimals(ratio.median)]);
      data.push({ operation: operation.name, measured, ratio });
    }
    const head = ['request', ...stages.map(({ name }) => `${name}, requests/s`), 'ratio'];
    return { tables: [{ title: 'The drivers of @supabase/lite', head, rows }], targets: [], skipped: [], data };
  } finally {
    for (const program of Object.values(programs)) await program.close();
    await postgres.close();
  }
};

async function emptyDatabase(admin: { host: string; port: number; user: string; password: string }): Promise<string> {
  const client = new Client({ ...admin, database: 'postgres' });
  await client.connect();
  await client.query('create database lite');
  await client.end();
  return `postgres://${admin.user}:${admin.password}@127.0.0.1:${admin.port}/lite`;
}
