/** Tests attacks that a project's owner can run by db_url on a server that another tenant and the platform use. */

import { getPriority, totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { authenticatorRole, databaseOf, ownerRole } from '@slipway/installation';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { adminUrl, silentLog } from '../../testing.js';
import { projectNamed } from '../engine.suite.js';
import { MachineDatabases } from '../machine/databases.js';
import { ClusterSessions } from './cluster-sessions.js';
import { canSetPriority } from './session-priority.js';
import { type EndedSession, MEMORY, MEMORY_CAPACITY, SessionWatch } from './session-watch.js';

interface ReconcilerDeps {
  postgres: TestPostgres;
  databases: MachineDatabases;
  ended: (EndedSession & { ref: string })[];
}

const test = suite<ReconcilerDeps>('sessions that harm others');
const READER = 'of-the-reader-of-changes';
const TENANT = { user: 'tenant', password: 'tenant' };
const passwords = { owner: 'o', authenticator: 'a', authAdmin: 'x' };

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.ended = [];
  context.databases = new MachineDatabases({
    adminDatabaseUrl: adminUrl(context.postgres),
    databasePublicAddress: `127.0.0.1:${context.postgres.port}`,
    replicationPassword: async () => READER,
    onSessionEnded: (ref, ended) => context.ended.push({ ref, ...ended }),
    log: silentLog,
  });
  await context.databases.start();
  for (const ref of ['attacker', 'neighbour']) assert.is(await made(context, ref), 'ready');
});

test.after(async ({ databases, postgres }) => {
  await databases.close();
  await postgres.close();
});

const made = async ({ databases }: ReconcilerDeps, ref: string) =>
  (
    await databases.ensure({
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
 * Starts a restore in one transaction. The transaction stays open, has a transaction id and few locks, and copies rows
 * now and then.
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
      // Copies at the speed of a network, not of the disk.
      await sleep(50);
    }
    await client.query('COMMIT');
    const { rows: found } = await client.query('SELECT count(*)::int AS n FROM restored');
    return found[0].n === rows;
  })();
  // The caller awaits the result at the end.
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

/** Creates a watch whose second connection opens on demand, and ends with the server. */
function watchOf(
  postgres: TestPostgres,
  ended: EndedSession[],
  accountOf: (database: string) => string | undefined = () => undefined,
  now?: () => number,
): SessionWatch {
  const url = adminUrl(postgres);
  const session = new ClusterSessions(url, silentLog);
  return new SessionWatch({
    url,
    session,
    accountOf,
    onEnded: (each) => ended.push(each),
    log: silentLog,
    ...(now && { now }),
  });
}

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    ({ code, message }) => code ?? message,
  );

const TOO_MANY_CONNECTIONS = '53300';
/** SQLSTATE of a full notification queue. */
const FULL = '54000';
const LOCKS: [string, string][] = [
  ['advisory locks', 'SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 10000000) n'],
  [
    'locks on tables',
    `DO $$ BEGIN FOR n IN 1..100000 LOOP EXECUTE format('CREATE TEMPORARY TABLE t%s (c int)', n); END LOOP; END $$`,
  ],
  ['locks on large objects', 'SELECT count(lo_unlink(lo_create(0))) FROM generate_series(1, 10000000)'],
];

for (const [what, attack] of LOCKS) {
  test(`a session that fills the lock table with ${what} is ended, and a restore succeeds`, async (deps) => {
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

const SMALL_SERVER = { max_slot_wal_keep_size: '64MB', max_notify_queue_pages: '4096' };

const HARMS: [string, string, string[]][] = [
  // The limit is a quarter of twice 64 MB.
  ['TemporaryFiles', `SELECT count(*) FROM (SELECT n FROM generate_series(1, 30000000) n ORDER BY -n) s`, []],
  [
    'NotificationQueue',
    `DO $$ BEGIN FOR n IN 1..100000 LOOP PERFORM pg_notify('flood', n || repeat('x', 7000)); COMMIT; END LOOP; END $$`,
    ['LISTEN flood', 'BEGIN', 'SELECT 1'],
  ],
];

for (const [reason, attack, held] of HARMS) {
  test(`harmful sessions are ended for ${reason}, and a transaction of another tenant is not`, async () => {
    const postgres = await startTestPostgres(SMALL_SERVER);
    const ended: EndedSession[] = [];
    const watch = watchOf(postgres, ended);
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
      // A listener that keeps the queue may be ended before its senders, which then harm nobody.
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

/** Each runs in autovacuum as a function of an index. */
const IN_AUTOVACUUM: [string, string][] = [
  [
    'LockTable',
    'BEGIN FOR n IN 1..10000000 LOOP PERFORM pg_advisory_lock(n); END LOOP; EXCEPTION WHEN OTHERS THEN END;',
  ],
  ['TemporaryFiles', 'PERFORM count(*) FROM (SELECT n FROM generate_series(1, 30000000) n ORDER BY -n) s;'],
];

for (const [reason, attack] of IN_AUTOVACUUM) {
  test(`an automatic ANALYZE that runs a harmful function is ended for ${reason}`, async () => {
    const postgres = await startTestPostgres({ ...SMALL_SERVER, autovacuum_naptime: '1s' });
    const ended: EndedSession[] = [];
    const watch = watchOf(postgres, ended);
    const superuser = new pg.Client(postgres.admin());
    const login = (database: string) => new pg.Client({ ...postgres.admin(database), ...TENANT });
    const [attacker, neighbour] = [login('p-attacker'), login('p-neighbour')];
    try {
      await superuser.connect();
      await superuser.query(`CREATE ROLE tenant LOGIN PASSWORD 'tenant'`);
      for (const name of ['p-attacker', 'p-neighbour']) await superuser.query(`CREATE DATABASE "${name}" OWNER tenant`);
      for (const client of [attacker, neighbour]) await client.connect();
      watch.start();
      await attacker.query(`
        CREATE FUNCTION harm(value int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
          IF current_setting('application_name') = 'owner' THEN RETURN value; END IF;
          ${attack}
          PERFORM pg_sleep(600);
          RETURN value;
        END $$;
        SET application_name = 'owner';
        CREATE TABLE analyzed (n int) WITH (autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0);
        CREATE INDEX ON analyzed (harm(n))`);
      await attacker.query('INSERT INTO analyzed SELECT generate_series(1, 100)');
      // A session counts its rows at its end, or once it has been idle for 10 s.
      await attacker.end();
      await until(() => ended.length > 0, 'the end of autovacuum', 60_000);
      const [{ message, ...first } = {} as EndedSession] = ended;
      assert.equal(first, { database: 'p-attacker', role: null, reason });
      assert.match(message, /The session was an automatic ANALYZE/);
      const create = () => neighbour.query('CREATE TABLE IF NOT EXISTS created (n int)');
      await until(async () => (await codeOf(create())) === 'done', 'a statement of the neighbour');
    } finally {
      await watch.close();
      await Promise.all([attacker, neighbour, superuser].map((each) => each.end().catch(() => {})));
      await postgres.close();
    }
  });
}

/** Starts a server whose notification queue has 32 MB, with projects that are not watched yet. */
async function startSmallServer(projects: string[], now?: () => number) {
  const postgres = await startTestPostgres(SMALL_SERVER);
  const ended: EndedSession[] = [];
  const watch = watchOf(postgres, ended, undefined, now);
  const superuser = new pg.Client(postgres.admin());
  const clients = [superuser];
  await superuser.connect();
  await superuser.query(`CREATE ROLE tenant LOGIN PASSWORD 'tenant'`);
  for (const project of projects) await superuser.query(`CREATE DATABASE "${databaseOf(project)}" OWNER tenant`);
  const login = async (project: string) => {
    const client = new pg.Client({ ...postgres.admin(databaseOf(project)), ...TENANT });
    client.on('error', () => {});
    clients.push(client);
    await client.connect();
    return client;
  };
  const close = async () => {
    await watch.close();
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
    await postgres.close();
  };
  const queueUsage = async () => (await superuser.query('SELECT pg_notification_queue_usage() AS usage')).rows[0].usage;
  /** Resolves when no transaction delays the slot. */
  const makeSlot = async (project: string) => {
    const reader = new pg.Client({
      ...postgres.admin(databaseOf(project)),
      ...({ replication: 'database' } as object),
    });
    reader.on('error', () => {});
    clients.push(reader);
    await reader.connect();
    await reader.query(`CREATE_REPLICATION_SLOT "made" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')`);
  };
  return { watch, ended, login, close, queueUsage, makeSlot };
}

/** Statement that fills 2 MB of the notification queue. */
const FLOOD = `SELECT count(pg_notify('flood', n || repeat('x', 7900))) FROM generate_series(1, 256) n`;

test('an idle transaction is ended when a neighbour waits for it for a minute, unless it writes', async () => {
  // The clock runs five times as fast, as the log is read only every two seconds.
  const now = () => performance.now() * 5;
  const { watch, ended, login, close, makeSlot } = await startSmallServer(
    ['asks', 'idles', 'neighbour', 'reader'],
    now,
  );
  let isOver = false;
  try {
    const [asking, idle, neighbour] = await Promise.all(['asks', 'idles', 'neighbour'].map(login));
    assert.ok(asking && idle && neighbour);
    for (const client of [asking, idle, neighbour]) await client.query('BEGIN; CREATE TABLE written (n int)');
    const repeat = async (client: pg.Client, sql: string) => {
      for (;;) {
        const code = await codeOf(client.query(sql));
        if (code !== 'done' || isOver) return code;
        await sleep(50);
      }
    };
    const asked = repeat(asking, 'SELECT 1');
    // A restore that rolls back failed statements does the same: its rows have the ids of subtransactions.
    const restored = repeat(neighbour, 'SAVEPOINT s; INSERT INTO written VALUES (1); RELEASE s');
    let isMade = false;
    const made = makeSlot('reader').then(() => {
      isMade = true;
    });
    // If the test fails, closing the server ends this promise.
    made.catch(() => {});
    const before = now();
    watch.start();
    await until(() => ended.length >= 2, 'the end of two sessions');
    assert.ok(now() - before >= 60_000);
    assert.equal(
      new Set(ended.map(({ database, reason }) => `${database} ${reason}`)),
      new Set(['p-asks IdleTransaction', 'p-idles IdleTransaction']),
    );
    assert.is.not(await asked, 'done');
    assert.not.ok(isMade);
    isOver = true;
    assert.is(await restored, 'done');
    assert.is(await codeOf(neighbour.query('COMMIT')), 'done');
    await made;
    assert.is(ended.length, 2);
  } finally {
    isOver = true;
    await close();
  }
});

test('a listener that keeps the notification queue full is ended, and an older transaction is not', async () => {
  const { watch, ended, login, close, queueUsage } = await startSmallServer(['attacker', 'accomplice', 'neighbour']);
  try {
    const [holder, accomplice, neighbour] = await Promise.all(['attacker', 'accomplice', 'neighbour'].map(login));
    assert.ok(holder && accomplice && neighbour);
    await neighbour.query('BEGIN; SELECT 1');
    await holder.query('LISTEN flood');
    const copying = codeOf(holder.query('COPY (SELECT pg_sleep(600)) TO STDOUT'));
    while ((await queueUsage()) < 0.9) await accomplice.query(FLOOD);
    watch.start();
    await until(() => ended.length > 0, 'the end of a session');
    assert.equal(
      ended.map(({ database, reason }) => [database, reason]),
      [[databaseOf('attacker'), 'NotificationQueue']],
    );
    assert.is(await copying, '57P01');
    await until(async () => (await queueUsage()) === 0, 'the queue to be empty');
    assert.is(ended.length, 1);
    assert.is(await codeOf(neighbour.query('COMMIT')), 'done');
  } finally {
    await close();
  }
});

test('neighbours that wait to send are not ended while three sessions flood the notification queue', async () => {
  const { watch, ended, login, close } = await startSmallServer(['attacker', 'neighbour']);
  let isOver = false;
  try {
    watch.start();
    const holder = await login('attacker');
    await holder.query('LISTEN flood');
    await holder.query('BEGIN; SELECT 1');
    const repeat = async (project: string, sql: string) => {
      const client = await login(project);
      const codes = new Set<string>();
      while (!isOver) codes.add(await codeOf(client.query(sql)));
      return codes;
    };
    const flooding = Array.from({ length: 3 }, () => repeat('attacker', FLOOD));
    const sending = Array.from({ length: 4 }, () => repeat('neighbour', `BEGIN; NOTIFY mine; SELECT 1; COMMIT`));
    await until(() => ended.length > 0, 'the end of the listener');
    isOver = true;
    await Promise.all(flooding);
    for (const codes of await Promise.all(sending))
      codes.forEach((code) => assert.ok(['done', FULL].includes(code), code));
    assert.equal(
      ended.map(({ database, reason }) => [database, reason]),
      [[databaseOf('attacker'), 'NotificationQueue']],
    );
  } finally {
    isOver = true;
    await close();
  }
});

test('a project can connect again after its listener was ended for the notification queue', async (deps) => {
  const [holder, sender] = await Promise.all([owner(deps, 'attacker'), owner(deps, 'attacker')]);
  const superuser = new pg.Client(deps.postgres.admin());
  await superuser.connect();
  try {
    await holder.query('LISTEN flood');
    await holder.query('BEGIN; SELECT 1');
    const before = deps.ended.length;
    const queue = `SELECT pg_notification_queue_usage() AS usage,
      (SELECT rolconnlimit FROM pg_roles WHERE rolname = '${ownerRole('attacker')}') AS connections`;
    const looked = async () => (await superuser.query(queue)).rows[0];
    const { connections } = await looked();
    while (deps.ended.length === before) await codeOf(sender.query(FLOOD));
    const emptied = await until(async () => ((await looked()).usage === 0 ? looked() : undefined), 'an empty queue');
    assert.is(emptied.connections, connections);
    assert.is(await codeOf(owner(deps, 'attacker').then((client) => client.end())), 'done');
  } finally {
    await Promise.all([holder, sender, superuser].map((each) => each.end().catch(() => {})));
  }
});

test('the watch reads the memory of sessions', async ({ postgres }) => {
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

test('a session has a low priority while it keeps a processor busy, if this process may set it', async (deps) => {
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

/** Maximum number of locks of one account on a server with 60 connections of ten locks each. */
const QUARTER_OF_LOCKS = 150;

test('the watch ends sessions when twenty of them fill the lock table, and delays no vacuum', async () => {
  const postgres = await startTestPostgres({
    max_connections: '60',
    reserved_connections: '0',
    max_wal_senders: '2',
    max_worker_processes: '2',
    max_locks_per_transaction: '10',
  });
  const ended: EndedSession[] = [];
  const watch = watchOf(postgres, ended);
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
    // This session has fewer locks than the account may have, so it may survive. The share of each of the others is
    // random.
    const [modest] = tenants;
    await modest?.query('SELECT count(pg_advisory_lock(-1, n)) FROM generate_series(1, 120) n');
    const attack = (tenant: pg.Client, at: number) =>
      codeOf(tenant.query(`SELECT count(pg_advisory_lock(${at}, n)) FROM generate_series(1, 100000) n`));
    const outcomes = await Promise.all(tenants.slice(1).map(attack));
    assert.ok(outcomes.includes('53200'), `the table was full: ${outcomes}`);
    const left = 'SELECT count(*)::int AS n FROM pg_locks WHERE locktype = $1';
    const held = async () => (await superuser.query(left, ['advisory'])).rows[0].n;
    await until(async () => (await held()) <= QUARTER_OF_LOCKS, 'the locks to be released');
    assert.ok(ended.every(({ reason }) => reason === 'LockTable'));
    await Promise.all(tenants.map((tenant) => tenant.end().catch(() => {})));
  } finally {
    await watch.close();
    await superuser.end();
    await postgres.close();
  }
});

test('an account with more than a quarter of the db_url connections loses only its newest connections', async () => {
  const postgres = await startTestPostgres({
    max_connections: '40',
    superuser_reserved_connections: '4',
    reserved_connections: '8',
    max_wal_senders: '2',
    max_worker_processes: '2',
  });
  const ended: EndedSession[] = [];
  const ids = ['first', 'second', 'neighbour'];
  const accountOf = (database: string) => (database === databaseOf('neighbour') ? 'neighbour' : 'attacker');
  const watch = watchOf(postgres, ended, accountOf);
  const superuser = new pg.Client(postgres.admin());
  await superuser.connect();
  const clients: pg.Client[] = [];
  const connect = async (id: string, user = ownerRole(id)) => {
    const client = new pg.Client({ ...postgres.admin(databaseOf(id)), user, password: 'o' });
    client.on('error', () => {});
    clients.push(client);
    await client.connect();
    return client;
  };
  try {
    for (const id of ids) {
      await superuser.query(`CREATE ROLE "${ownerRole(id)}" LOGIN PASSWORD 'o'`);
      await superuser.query(
        `CREATE ROLE "${authenticatorRole(id)}" LOGIN PASSWORD 'o' IN ROLE pg_use_reserved_connections`,
      );
      await superuser.query(`CREATE DATABASE "${databaseOf(id)}" OWNER "${ownerRole(id)}"`);
    }
    const neighbours = await connect('neighbour');
    for (let n = 0; n < 5; n++) await connect('first');
    watch.start();
    for (let n = 0; n < 8; n++) await connect('second');
    await until(() => ended.length >= 6, 'six sessions to be ended');
    assert.ok(ended.every(({ reason, database }) => reason === 'Connections' && database === databaseOf('second')));
    const count = 'SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = any ($1)';
    const left = async () => (await superuser.query(count, [[ownerRole('first'), ownerRole('second')]])).rows[0].n;
    await until(async () => (await left()) === 7, 'a quarter of 28 to be left');
    assert.is(ended.length, 6);
    for (let n = 0; n < 18; n++) await connect('second', authenticatorRole('second'));
    await until(() => ended.length >= 8, 'two sessions of services to be ended');
    assert.ok(ended.slice(6).every(({ reason }) => reason === 'ServiceConnections'));
    await neighbours.query('SELECT 1');
  } finally {
    await watch.close();
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
    await superuser.end();
    await postgres.close();
  }
});

test.run();
