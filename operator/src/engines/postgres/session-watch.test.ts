/** Attacks of a project's owner on a server that a neighbour and the platform use, as it can run them by its db_url. */

import { getPriority, totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { databaseOf, ownerRole, REPLICATION_ROLE } from '@slipway/crds';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { adminUrl, silentLog, until } from '../../testing.js';
import { EmbeddedEngine } from '../embedded/engine.js';
import { projectNamed } from '../engine.suite.js';
import { canSetPriority } from './session-priority.js';
import { type EndedSession, MEMORY, MEMORY_CAPACITY, SessionWatch } from './session-watch.js';

interface ReconcilerDeps {
  postgres: TestPostgres;
  engine: EmbeddedEngine;
  ended: (EndedSession & { ref: string })[];
}

const test = suite<ReconcilerDeps>('sessions that harm others');
const READER = 'of-the-reader-of-changes';
const TENANT = { user: 'tenant', password: 'tenant' };
const passwords = { owner: 'o', authenticator: 'a', authAdmin: 'x' };

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.ended = [];
  context.engine = new EmbeddedEngine({
    adminDatabaseUrl: adminUrl(context.postgres),
    databasePublicAddress: `127.0.0.1:${context.postgres.port}`,
    dataplaneUrl: 'http://127.0.0.1:9',
    projectUrl: (ref) => `http://localhost:4000/p/${ref}`,
    replicationPassword: async () => READER,
    onSessionEnded: (ref, ended) => context.ended.push({ ref, ...ended }),
    log: silentLog,
  });
  await context.engine.start();
  for (const ref of ['attacker', 'neighbour']) assert.is(await made(context, ref), 'ready');
});

test.after(async ({ engine, postgres }) => {
  await engine.close();
  await postgres.close();
});

const made = async ({ engine }: ReconcilerDeps, ref: string) =>
  (
    await engine.ensureDatabase({
      project: { ...projectNamed(ref), owner: `${ref}@example.com` },
      passwords,
      databaseId: ref,
      existed: false,
    })
  ).state;

async function owner({ postgres }: ReconcilerDeps, ref: string): Promise<pg.Client> {
  const client = new pg.Client({ ...postgres.admin(databaseOf(ref)), user: ownerRole(ref), password: 'o' });
  client.on('error', () => {});
  await client.connect();
  return client;
}

/**
 * A restore in one transaction: it is open all the time, has a transaction id and few locks, and copies rows now and
 * then.
 */
async function startRestore(deps: ReconcilerDeps) {
  const client = await owner(deps, 'neighbour');
  await client.query('DROP TABLE IF EXISTS restored; BEGIN; CREATE TABLE restored (n int)');
  let rows = 0;
  let isEnding = false;
  const copying = (async () => {
    while (!isEnding) {
      await client.query('INSERT INTO restored SELECT generate_series(1, 100)');
      rows += 100;
      // As fast as a network sends them, not as fast as the disk takes them.
      await sleep(50);
    }
    await client.query('COMMIT');
    const { rows: found } = await client.query('SELECT count(*)::int AS n FROM restored');
    return found[0].n === rows;
  })();
  // Its outcome is looked at when it is finished.
  copying.catch(() => {});
  return {
    finish: async () => {
      isEnding = true;
      const whole = await copying;
      await client.end();
      return whole;
    },
  };
}

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    ({ code, message }) => code ?? message,
  );

const TOO_MANY_CONNECTIONS = '53300';
const LOCKS: [string, string][] = [
  ['advisory locks', 'SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 10000000) n'],
  [
    'locks on tables',
    `DO $$ BEGIN FOR n IN 1..100000 LOOP EXECUTE format('CREATE TEMPORARY TABLE t%s (c int)', n); END LOOP; END $$`,
  ],
  ['locks on large objects', 'SELECT count(lo_unlink(lo_create(0))) FROM generate_series(1, 10000000)'],
];

for (const [what, attack] of LOCKS) {
  test(`a session that fills the lock table with ${what} is ended, and a restore and new projects go on`, async (deps) => {
    const restore = await startRestore(deps);
    const attacker = await owner(deps, 'attacker');
    await attacker.query('GRANT TEMPORARY ON DATABASE "p-attacker" TO CURRENT_USER; SET statement_timeout = 0');
    const before = deps.ended.length;
    const outcome = codeOf(attacker.query(attack));
    await until(() => deps.ended.length > before, 'the end of the session');
    assert.is(await outcome, '57P01');
    assert.equal(
      deps.ended.slice(before).map(({ ref, reason }) => [ref, reason]),
      [['attacker', 'LockTable']],
    );
    await until(async () => (await made(deps, `made-${before}`)) === 'ready', 'a new project');
    assert.ok(await restore.finish());
    await attacker.end().catch(() => {});
    const again = () => codeOf(owner(deps, 'attacker').then((client) => client.end()));
    await until(async () => (await again()) === TOO_MANY_CONNECTIONS, 'the refusal of another session');
    assert.is(await made(deps, 'attacker'), 'ready');
    assert.is(await again(), 'done');
  });
}

test('a transaction that does nothing while the reader of changes waits for it is ended', async (deps) => {
  const attacker = await owner(deps, 'attacker');
  await attacker.query('BEGIN; SELECT pg_current_xact_id()');
  const reader = new pg.Client({
    ...deps.postgres.admin(databaseOf('neighbour')),
    user: REPLICATION_ROLE,
    password: READER,
    ...({ replication: 'database' } as object),
  });
  reader.on('error', () => {});
  await reader.connect();
  const before = deps.ended.length;
  await reader.query(`CREATE_REPLICATION_SLOT "waiting" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')`);
  assert.is(deps.ended.length, before + 1);
  assert.is(deps.ended.at(-1)?.reason, 'ReplicationBlocked');
  await reader.end();
  await attacker.end().catch(() => {});
});

test('a session that waits for no lock is ended when the reader waits for it through another session', async (deps) => {
  const [holder, waiting] = await Promise.all([owner(deps, 'attacker'), owner(deps, 'attacker')]);
  await waiting.query('CREATE TABLE IF NOT EXISTS contended (n int)');
  // No transaction id: the reader does not wait for this one itself.
  await holder.query('BEGIN; LOCK TABLE contended IN SHARE MODE');
  await waiting.query('BEGIN; SELECT pg_current_xact_id()');
  const outcome = codeOf(waiting.query('INSERT INTO contended VALUES (1); COMMIT'));
  const before = deps.ended.length;
  const reader = new pg.Client({
    ...deps.postgres.admin(databaseOf('neighbour')),
    user: REPLICATION_ROLE,
    password: READER,
    ...({ replication: 'database' } as object),
  });
  reader.on('error', () => {});
  await reader.connect();
  await reader.query(`CREATE_REPLICATION_SLOT "chained" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')`);
  assert.is(await outcome, 'done');
  assert.equal(
    deps.ended.slice(before).map(({ reason }) => reason),
    ['ReplicationBlocked'],
  );
  await reader.end();
  await waiting.end();
  await holder.end().catch(() => {});
});

const SMALL_SERVER = { max_slot_wal_keep_size: '64MB', max_notify_queue_pages: '4096' };

const HARMS: [string, string, string[]][] = [
  // A quarter of twice 64 MB.
  ['TemporaryFiles', `SELECT count(*) FROM (SELECT n FROM generate_series(1, 30000000) n ORDER BY -n) s`, []],
  [
    'NotificationQueue',
    `DO $$ BEGIN FOR n IN 1..100000 LOOP PERFORM pg_notify('flood', n || repeat('x', 7000)); COMMIT; END LOOP; END $$`,
    ['LISTEN flood', 'BEGIN', 'SELECT 1'],
  ],
];

for (const [reason, attack, held] of HARMS) {
  test(`sessions are ended for ${reason}, and a transaction of a neighbour is not`, async () => {
    const postgres = await startTestPostgres(SMALL_SERVER);
    const ended: EndedSession[] = [];
    const watch = new SessionWatch(
      adminUrl(postgres),
      () => undefined,
      (each) => ended.push(each),
      silentLog,
    );
    const superuser = new pg.Client(postgres.admin());
    const login = (database: string) => {
      const client = new pg.Client({ ...postgres.admin(database), ...TENANT });
      client.on('error', () => {});
      return client;
    };
    const [holder, attacker, restore] = [login('p-attacker'), login('p-attacker'), login('p-neighbour')];
    try {
      await superuser.connect();
      await superuser.query(`CREATE ROLE tenant LOGIN PASSWORD 'tenant'`);
      for (const name of ['p-attacker', 'p-neighbour']) await superuser.query(`CREATE DATABASE "${name}" OWNER tenant`);
      for (const client of [restore, holder, attacker]) await client.connect();
      await restore.query('BEGIN; CREATE TABLE restored (n int)');
      watch.start();
      for (const sql of held) await holder.query(sql);
      const outcome = await codeOf(attacker.query(attack));
      // A listener that keeps the queue may be ended before its senders, who harm nobody then.
      if (held.length === 0) assert.is(outcome, '57P01');
      if (held.length > 0)
        await until(async () => (await codeOf(holder.query('SELECT 1'))) !== 'done', 'the end of the listener');
      assert.ok(ended.every((each) => each.database === 'p-attacker' && each.reason === reason));
      const used = 'SELECT pg_notification_queue_usage() AS queue, (SELECT count(*) FROM pg_ls_tmpdir())::int AS files';
      await until(async () => {
        const { queue, files } = (await superuser.query(used)).rows[0];
        return queue === 0 && files === 0;
      }, 'the resource to be free');
      assert.is(await codeOf(restore.query('INSERT INTO restored VALUES (1); COMMIT')), 'done');
    } finally {
      await watch.close();
      await Promise.all([holder, attacker, restore, superuser].map((each) => each.end().catch(() => {})));
      await postgres.close();
    }
  });
}

test('the watch sees the memory of sessions', async ({ postgres }) => {
  const client = new pg.Client(postgres.admin());
  await client.connect();
  try {
    await client.query(`BEGIN; SET work_mem = '1GB'; DECLARE large CURSOR FOR
      SELECT repeat('x', 500) || n AS t FROM generate_series(1, 200000) n ORDER BY t`);
    const { rows } = await client.query(`SELECT ${MEMORY} AS bytes FROM pg_stat_activity a
      WHERE pid = pg_backend_pid()`);
    await client.query('FETCH 1 FROM large');
    const { rows: later } = await client.query(`SELECT ${MEMORY} AS bytes, ${MEMORY_CAPACITY} AS capacity
      FROM pg_stat_activity a WHERE pid = pg_backend_pid()`);
    const grown = Number(later[0].bytes) - Number(rows[0].bytes);
    assert.ok(Number(rows[0].bytes) > 0 && grown > 90e6, `grown by ${grown} bytes`);
    assert.ok(later[0].capacity > 2 ** 29 && later[0].capacity <= totalmem());
  } finally {
    await client.end();
  }
});

test('a session that keeps a processor busy has a low priority meanwhile, where this process may set it', async (deps) => {
  if (!canSetPriority(adminUrl(deps.postgres))) return console.log('# skipped: this process is not root on Linux');
  const busy = await owner(deps, 'attacker');
  const { rows } = await busy.query('SELECT pg_backend_pid() AS pid');
  const working = codeOf(busy.query('SELECT count(*) FROM generate_series(1, 1000000000)'));
  await until(() => getPriority(rows[0].pid) === 10, 'a low priority');
  await busy.end();
  await working;
  const resting = await owner(deps, 'neighbour');
  const { rows: other } = await resting.query(
    'SELECT pg_backend_pid() AS pid, count(*) FROM generate_series(1, 6000000)',
  );
  await until(() => getPriority(other[0].pid) === 0, 'the priority of a session that rests');
  await resting.end();
});

test('the watch ends sessions when twenty of them have filled the lock table, and holds back no vacuum', async () => {
  const postgres = await startTestPostgres({
    max_connections: '40',
    max_wal_senders: '2',
    max_worker_processes: '2',
    max_locks_per_transaction: '10',
  });
  const ended: EndedSession[] = [];
  const watch = new SessionWatch(
    adminUrl(postgres),
    () => undefined,
    (each) => ended.push(each),
    silentLog,
  );
  const superuser = new pg.Client(postgres.admin());
  await superuser.connect();
  try {
    await superuser.query(`CREATE ROLE tenant LOGIN PASSWORD 'tenant'`);
    const tenants = Array.from({ length: 20 }, () => new pg.Client({ ...postgres.admin(), ...TENANT }));
    for (const tenant of tenants) tenant.on('error', () => {});
    await Promise.all(tenants.map((tenant) => tenant.connect()));
    watch.start();
    const looked = `SELECT backend_xmin, backend_xid FROM pg_stat_activity
      WHERE application_name = 'slipway-operator-watch' AND state LIKE 'idle%' AND query LIKE '%EXECUTE look'`;
    const seen = await until(async () => (await superuser.query(looked)).rows[0], 'the first look');
    assert.equal(seen, { backend_xmin: null, backend_xid: null });
    const attack = (tenant: pg.Client, at: number) =>
      codeOf(tenant.query(`SELECT count(pg_advisory_lock(${at}, n)) FROM generate_series(1, 100000) n`));
    const outcomes = await Promise.all(tenants.map(attack));
    assert.ok(outcomes.includes('53200'), `the table was full: ${outcomes}`);
    const left = 'SELECT count(*)::int AS n FROM pg_locks WHERE locktype = $1';
    await until(async () => (await superuser.query(left, ['advisory'])).rows[0].n <= 100, 'the locks to be released');
    assert.ok(ended.every(({ reason }) => reason === 'LockTable'));
    await Promise.all(tenants.map((tenant) => tenant.end().catch(() => {})));
  } finally {
    await watch.close();
    await superuser.end();
    await postgres.close();
  }
});

test('an account whose projects take more than a quarter of all connections loses the newest, and a neighbour none', async () => {
  const postgres = await startTestPostgres({ max_connections: '40', max_wal_senders: '2', max_worker_processes: '2' });
  const ended: EndedSession[] = [];
  const ids = ['first', 'second', 'neighbour'];
  const accountOf = (database: string) => (database === databaseOf('neighbour') ? 'neighbour' : 'attacker');
  const watch = new SessionWatch(adminUrl(postgres), accountOf, (each) => ended.push(each), silentLog);
  const superuser = new pg.Client(postgres.admin());
  await superuser.connect();
  const clients: pg.Client[] = [];
  const connect = async (id: string) => {
    const client = new pg.Client({ ...postgres.admin(databaseOf(id)), user: ownerRole(id), password: 'o' });
    client.on('error', () => {});
    clients.push(client);
    await client.connect();
    return client;
  };
  try {
    for (const id of ids) {
      await superuser.query(`CREATE ROLE "${ownerRole(id)}" LOGIN PASSWORD 'o'`);
      await superuser.query(`CREATE DATABASE "${databaseOf(id)}" OWNER "${ownerRole(id)}"`);
    }
    const neighbours = await connect('neighbour');
    for (let n = 0; n < 5; n++) await connect('first');
    watch.start();
    for (let n = 0; n < 8; n++) await connect('second');
    await until(() => ended.length >= 3, 'three sessions to be ended');
    assert.ok(ended.every(({ reason, database }) => reason === 'Connections' && database === databaseOf('second')));
    const count = 'SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = any ($1)';
    const left = async () => (await superuser.query(count, [[ownerRole('first'), ownerRole('second')]])).rows[0].n;
    await until(async () => (await left()) === 10, 'a quarter of forty to be left');
    assert.is(ended.length, 3);
    await neighbours.query('SELECT 1');
  } finally {
    await watch.close();
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
    await superuser.end();
    await postgres.close();
  }
});

test.run();
