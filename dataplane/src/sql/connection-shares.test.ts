/**
 * Tests the limits of an account's projects on the connections of a shared Postgres, and that other accounts are
 * served.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { outboundTo } from '@slipway/program/outbound.js';
import { openReplication } from '@slipway/project-database';
import { until } from '@slipway/testing';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../gateway/server.js';
import type { BackendTenant } from '../projects/tenant.js';
import { createAuthService } from '../services/auth/index.js';
import { createRealtimeService, ReaderShares } from '../services/realtime/index.js';
import { createRestService } from '../services/rest/index.js';
import type { Services } from '../services/service.js';
import { startTestCluster, type TestCluster, type TestProject } from '../testing/project.js';
import type { Login } from './login.js';

const PROJECTS = 20;
const REPLICATION_PASSWORD = 'of-the-reader-of-changes';
/** Settings for the connections that are reserved for superusers, and for those that are reserved for the services. */
const RESERVED = { superuser_reserved_connections: '5', reserved_connections: '25' };

const test = suite<{
  cluster: TestCluster;
  attackers: TestProject[];
  victim: TestProject;
  opened: pg.Client[];
  processes: ChildProcess[];
  close(): Promise<void>;
}>('shares of connections');

test.before(async (context) => {
  const cluster = await startTestCluster({ max_connections: '100', max_wal_senders: '5', ...RESERVED });
  const tenants = new Map<string, BackendTenant>();
  const log = pino({ level: 'silent' });
  const services: Services = {
    auth: createAuthService({ log, outbound: outboundTo(() => true) }),
    rest: createRestService(),
    realtime: createRealtimeService({
      log,
      replication: async () => REPLICATION_PASSWORD,
      shares: new ReaderShares((ref) => tenants.get(ref)?.owner.account),
    }),
  };
  const gateway = createGateway({
    publicUrl: 'http://localhost:4000',
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services,
    rateLimit: 0,
    management: { forward: () => undefined, close: () => undefined },
    log,
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  const publicUrl = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  const project = async (ref: string, account: string) => {
    const made = await cluster.project(ref, publicUrl);
    const of = (login: Login) => ({ ...login, account });
    const { owner, authenticator, authAdmin } = made;
    const tenant = { ...made, owner: of(owner), authenticator: of(authenticator), authAdmin: of(authAdmin) };
    tenants.set(ref, tenant);
    return tenant;
  };
  const admin = await connected(cluster.postgres.admin());
  await openReplication(admin, REPLICATION_PASSWORD);
  await admin.end();
  const attackers: TestProject[] = [];
  while (attackers.length < PROJECTS) attackers.push(await project(`attacker-${attackers.length}`, 'mallory'));
  const victim = await project('victim', 'ann');
  const owner = await connected(victim.owner);
  await owner.query(`CREATE TABLE todos (id int PRIMARY KEY, title text);
    ALTER PUBLICATION supabase_realtime ADD TABLE todos; GRANT ALL ON todos TO anon`);
  await owner.end();
  Object.assign(context, { cluster, attackers, victim, opened: [], processes: [] });
  context.close = async () => {
    gateway.closeAllConnections();
    await new Promise((resolve) => gateway.close(resolve));
    await Promise.all(Object.values(services).map((service) => service.close()));
    await cluster.close();
  };
});

test.after.each(async ({ opened, processes }) => {
  await Promise.all(opened.splice(0).map((client) => client.end().catch(() => undefined)));
  const running = processes.splice(0).filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
  const ends = running.map((child) => once(child, 'exit'));
  for (const child of running) child.kill('SIGKILL');
  await Promise.all(ends);
});

test.after(async ({ close }) => {
  await close();
});

async function connected(settings: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(settings);
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Opens sessions of each login until the server, or the role, rejects one. Returns the last error. */
async function takeAll(logins: Login[], opened: pg.Client[]): Promise<string> {
  let last = '';
  for (const login of logins) {
    for (;;) {
      const client = await connected(login).catch((error: Error) => {
        last = error.message;
      });
      if (client === undefined) break;
      opened.push(client);
    }
  }
  return last;
}

let uses = 0;

/** Uses each service as an app does. */
async function useServices({ url, anonKey }: TestProject): Promise<void> {
  const supabase = createClient(url, anonKey);
  const [id, email, title] = [++uses, `user-${uses}@example.com`, `title ${uses}`];
  try {
    const changes = changesOf(supabase);
    assert.is((await supabase.auth.signUp({ email, password: 'a long password' })).error, null);
    await until(() => changes.subscribed, 'the subscription to changes');
    const { error } = await supabase.from('todos').insert({ id, title });
    assert.is(error, null);
    await until(() => changes.titles.includes(title), 'the change');
  } finally {
    await supabase.removeAllChannels();
  }
}

function changesOf(supabase: SupabaseClient) {
  const changes = { subscribed: false, titles: [] as string[] };
  supabase
    .channel('todos')
    .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'todos' }, ({ new: row }) => {
      changes.titles.push(row.title);
    })
    .on('system', {}, ({ status }) => {
      changes.subscribed ||= status === 'ok';
    })
    .subscribe();
  return changes;
}

test('REST, auth and realtime serve a project while sessions of db_url use all connections that they can', async ({
  attackers,
  victim,
  opened,
}) => {
  const owners = attackers.map(({ owner }) => owner);
  const refusal = await takeAll(owners, opened);
  // The test itself has one more.
  assert.is(opened.length, 100 - 5 - 25 - 1);
  assert.match(refusal, /remaining connection slots are reserved/);
  await useServices(victim);
});

const PROCESSES = 4;
/** Number of connections, of 100, that are not reserved for superusers. One account may have a quarter of them. */
const CAPACITY = 95;
const SHARE = 23;
/**
 * Number of connections that each process opens for an account without a check. It opens one more at a time as a trial.
 */
const UNCHECKED = 2;
const TRIED = 1;

/** Keeps the databases busy from several processes, each of which serves all projects. */
function keepBusy(logins: Login[], processes: ChildProcess[]): void {
  const program = fileURLToPath(new URL('./connection-shares.testing.js', import.meta.url));
  while (processes.length < PROCESSES) {
    const child = fork(program);
    processes.push(child);
    child.send(logins);
  }
}

/** Hides the function of Postgres by which a session reads the server's number of connections. */
async function deceive(owner: Login): Promise<void> {
  const session = await connected(owner);
  await session.query(`
    CREATE SCHEMA evil;
    GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.current_setting(name text) RETURNS text LANGUAGE sql
      AS $$ SELECT CASE name WHEN 'max_connections' THEN '100000' ELSE '0' END $$;
    ALTER DATABASE "${owner.database}" SET search_path = evil, pg_catalog, public`);
  await session.end();
}

/** Sessions of services, by account. */
async function servicesOf(admin: pg.Client, logins: Login[]): Promise<Record<string, number>> {
  const { rows } = await admin.query(
    `SELECT datname, count(*)::int FROM pg_stat_activity WHERE usename LIKE 'authenticator.%' GROUP BY 1`,
  );
  const sums: Record<string, number> = {};
  for (const { datname, count } of rows) {
    const account = logins.find(({ database }) => database === datname)?.account;
    if (account !== undefined) sums[account] = (sums[account] ?? 0) + count;
  }
  return sums;
}

const sumOf = (counts: Record<string, number>) => Object.values(counts).reduce((total, each) => total + each, 0);

/**
 * Uses the victim's services repeatedly for some seconds, once the others have started `begun` sessions. Returns the
 * most sessions.
 */
async function siege(
  { cluster, victim }: { cluster: TestCluster; victim: TestProject },
  logins: Login[],
  begun: number,
): Promise<Record<string, number>> {
  const admin = await connected(cluster.postgres.admin());
  const most: Record<string, number> = {};
  try {
    await until(async () => sumOf(await servicesOf(admin, logins)) >= begun, 'the attack to begin');
    for (let round = 0; round < 3; round++) {
      await useServices(victim);
      for (const [account, count] of Object.entries(await servicesOf(admin, logins)))
        most[account] = Math.max(most[account] ?? 0, count);
      await sleep(1_000);
    }
    return most;
  } finally {
    await admin.end();
  }
}

test('one account uses at most a quarter of the connections of all processes, and others are served', async ({
  cluster,
  attackers,
  victim,
  processes,
}) => {
  const logins = attackers.map(({ authenticator }) => authenticator);
  for (const { owner } of attackers) await deceive(owner);
  keepBusy(logins, processes);
  const { mallory = 0 } = await siege({ cluster, victim }, logins, SHARE - 2);
  assert.ok(mallory <= SHARE + PROCESSES * (UNCHECKED + TRIED), String(mallory));
});

test('accounts that would together use all connections leave some for one more account', async ({
  cluster,
  attackers,
  victim,
  processes,
}) => {
  const logins = attackers.map(({ authenticator }, at) => ({ ...authenticator, account: `mallory-${at % 5}` }));
  keepBusy(logins, processes);
  const most = await siege({ cluster, victim }, logins, CAPACITY / 2);
  assert.ok(sumOf(most) < CAPACITY - 6, JSON.stringify(most));
});

test.run();
