/**
 * Runs @supabase/lite as its users do, with `lite start`, on its Postgres driver and a separate Postgres. In: the
 * schema and the secret of tokens. Out: its URL, and a connection to its database.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { startTestPostgres } from '@slipway/postgres/testing.js';
import { freePort, until } from '@slipway/testing';
import pg from 'pg';
import { PEERS } from '../peers.js';

export interface Lite {
  url: string;
  database: pg.Client;
  close(): Promise<void>;
}

const DATABASE = 'lite';

/** SQL that has run in the database of a new Slipway project, and that lite's database needs too. */
const AT_BIRTH = `
  create role anon; create role authenticated; create role service_role bypassrls;
  alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
  alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
  create schema auth;
  grant usage on schema auth to anon, authenticated, service_role;
  create function auth.uid() returns uuid language sql stable as $$
    select (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid $$;
`;

export async function startLite(schema: string, jwtSecret: string): Promise<Lite> {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-lite-'));
  const postgres = await startTestPostgres();
  const first = new pg.Client(postgres.admin());
  await first.connect();
  await first.query(`create database ${DATABASE}`);
  await first.end();
  const database = new pg.Client(postgres.admin(DATABASE));
  await database.connect();
  await database.query(AT_BIRTH + schema);

  const port = await freePort();
  const { user, password } = postgres.admin();
  await mkdir(path.join(folder, 'supabase'));
  const address = `postgres://${user}:${password}@127.0.0.1:${postgres.port}/${DATABASE}`;
  await writeFile(path.join(folder, 'supabase', 'config.toml'), configuration(port, address, jwtSecret), {
    mode: 0o600,
  });
  const child = fork(
    fileURLToPath(new URL('./lite-process.js', import.meta.url)),
    [path.join(PEERS, 'node_modules/@supabase/lite/dist/cli/index.js')],
    {
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: folder, EXPERIMENTAL_STORAGE: '1', LITE_TELEMETRY: '0' },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    },
  );
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-10_000);
    });
  }
  const url = `http://127.0.0.1:${port}`;
  const close = async () => {
    if (child.exitCode === null) {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    }
    await database.end();
    await postgres.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`@supabase/lite ended:\n${output}`);
      const answer = await fetch(`${url}/auth/v1/health`).catch(() => undefined);
      return answer?.ok;
    }, '@supabase/lite answers');
  } catch (error) {
    await close();
    throw error;
  }
  return { url, database, close };
}

const configuration = (port: number, databaseUrl: string, jwtSecret: string) => `
[api]
port = ${port}
schemas = ["public"]
aggregates_enabled = true
[db]
driver = "postgres"
url = "${databaseUrl}"
[auth]
enabled = true
jwt_secret = "${jwtSecret}"
[auth.email]
enable_confirmations = false
[storage]
enabled = true
`;
