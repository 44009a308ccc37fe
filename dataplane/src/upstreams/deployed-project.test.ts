/** Tests supabase-js with a project whose auth and rest are separate programs behind the gateway. */
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../gateway/server.js';
import type { BackendTenant } from '../projects/tenant.js';
import { octKey, type Program, startProgram, stop, urlOf } from '../standalone/testing.js';
import { signToken, startTestCluster, type TestCluster } from '../testing/project.js';
import { createDeployedServices, type DeployedName } from './deployed.js';
import { createManagement } from './management.js';

const NEXT = 'the secret that is about to sign, 32 characters long';
const services = createDeployedServices({ serviceAddress: (_, name) => addressOf(name) });
const programs: Partial<Record<DeployedName, Program>> = {};
let cluster: TestCluster;
let gateway: Server;
let url: string;
let tenant: BackendTenant;

function addressOf(name: DeployedName) {
  const { hostname, port } = new URL(programs[name]?.url ?? 'http://127.0.0.1:1');
  return { host: hostname, port: Number(port) };
}

test.before(async () => {
  cluster = await startTestCluster();
  const publicUrl = 'http://slipway.test';
  gateway = createGateway({
    publicUrl,
    tenant: (ref) => (ref === tenant.ref ? tenant : undefined),
    complete: () => true,
    services: {},
    deployed: services,
    rateLimit: 0,
    management: createManagement(undefined, publicUrl),
    log: pino({ level: 'silent' }),
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  tenant = { ...(await cluster.project('alone', origin)), upstream: 'pods', otherJwtSecrets: [NEXT] };
  url = `${origin}/p/alone`;
  const keys = [octKey(tenant.jwtSecret, 'current', ['sign', 'verify']), octKey(NEXT, 'next', ['verify'])];
  programs.auth = await startProgram('auth', {
    GOTRUE_API_HOST: '127.0.0.1',
    GOTRUE_API_PORT: '0',
    API_EXTERNAL_URL: `${url}/auth/v1`,
    GOTRUE_DB_DATABASE_URL: `${urlOf(tenant.authAdmin)}&search_path=auth`,
    GOTRUE_JWT_SECRET: tenant.jwtSecret,
    GOTRUE_JWT_KEYS: JSON.stringify(keys),
    GOTRUE_SITE_URL: 'https://app.example.com',
    GOTRUE_MAILER_AUTOCONFIRM: 'true',
    GOTRUE_RATE_LIMIT_HEADER: 'X-Forwarded-For',
  });
  programs.rest = await startProgram('rest', {
    PGRST_LOG_LEVEL: 'info',
    PGRST_SERVER_HOST: '127.0.0.1',
    PGRST_SERVER_PORT: '0',
    PGRST_DB_URI: urlOf(tenant.authenticator),
    PGRST_DB_ANON_ROLE: 'anon',
    PGRST_JWT_SECRET: JSON.stringify({ keys }),
  });
});
test.after(async () => {
  await Promise.all(Object.values(programs).map(stop));
  await services.auth.close();
  gateway.closeAllConnections();
  gateway.close();
  await cluster?.close();
});

const client = (key = tenant.anonKey) =>
  createClient(url, key, { auth: { persistSession: false, autoRefreshToken: false } });

async function asOwner(sql: string): Promise<void> {
  const session = new pg.Client(tenant.owner);
  await session.connect();
  await session.query(sql);
  await session.end();
}

test('users sign up, and see only their own rows', async () => {
  await asOwner(
    `create table notes (id bigint generated always as identity primary key,
       user_id uuid default auth.uid(), body text);
     alter table notes enable row level security;
     create policy own on notes using (user_id = auth.uid()) with check (user_id = auth.uid())`,
  );
  const [al, bo] = [client(), client()];
  for (const [user, email] of [
    [al, 'al@example.com'],
    [bo, 'bo@example.com'],
  ] as const) {
    assert.is((await user.auth.signUp({ email, password: 'correct horse' })).error, null);
    assert.is((await user.from('notes').insert({ body: `of ${email}` })).error, null);
  }
  assert.equal((await al.from('notes').select('body')).data, [{ body: 'of al@example.com' }]);
  assert.is((await al.auth.getUser()).data.user?.email, 'al@example.com');
  assert.equal((await client().from('notes').select('body')).data, []);
  const all = await client(tenant.serviceRoleKey).from('notes').select('body', { count: 'exact' });
  assert.equal([all.data?.length, all.count], [2, 2]);
  const { data } = await client(tenant.serviceRoleKey).auth.admin.listUsers();
  assert.is(data.users.length, 2);
});

test('a key signed by the next secret is accepted before the rotation makes that secret current', async () => {
  const key = await signToken({ role: 'service_role' }, NEXT);
  assert.is((await client(key).from('notes').select('body')).data?.length, 2);
  assert.is((await client(key).auth.admin.listUsers()).error, null);
});

test('a caller without a key, or with another project’s key, is rejected', async () => {
  assert.is((await fetch(`${url}/rest/v1/notes`)).status, 401);
  const stranger = await signToken({ role: 'service_role' }, 'a secret of nobody here, of 32 characters');
  assert.is((await client(stranger).from('notes').select('body')).status, 401);
  assert.is((await client(stranger).auth.admin.listUsers()).error?.status, 401);
});

test('callers get an error while rest is unavailable, auth still works, and rest works again afterwards', async () => {
  const { rest } = programs;
  programs.rest = undefined as unknown as Program;
  const away = await fetch(`${url}/rest/v1/notes`, { headers: { apikey: tenant.anonKey } });
  assert.equal([away.status, away.headers.get('retry-after')], [502, '1']);
  assert.is((await fetch(`${url}/auth/v1/health`)).status, 200);
  programs.rest = rest as Program;
  assert.is((await fetch(`${url}/rest/v1/notes`, { headers: { apikey: tenant.anonKey } })).status, 200);
});

test.run();
