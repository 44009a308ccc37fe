import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ConnectionError, DatabaseError, Pool, PoolBusyError, type PoolHooks, type PoolLimits } from './pool.js';

const test = suite('pool');
let postgres: TestPostgres;
const pools: Pool[] = [];

function pool(limits: Partial<PoolLimits> = {}, hooks: PoolHooks = {}): Pool {
  const made = new Pool(postgres.admin(), limits, hooks);
  pools.push(made);
  return made;
}

const text = (value: Buffer | null | undefined) => value?.toString();

test.before(async () => {
  postgres = await startTestPostgres();
});
test.after.each(async () => {
  await Promise.all(pools.splice(0).map((each) => each.close()));
});
test.after(() => postgres.close());

test('a batch is one transaction: a local setting of one statement applies to the next, and ends with it', async () => {
  const db = pool({ connections: 1 });
  const inside = await db.batch([
    { text: `select set_config('request.method', $1, true)`, values: ['GET'] },
    { text: `select current_setting('request.method', true)` },
  ]);
  assert.is(text(inside[1]?.rows[0]?.[0]), 'GET');
  const [after] = await db.batch([{ text: `select current_setting('request.method', true)` }]);
  assert.is(text(after?.rows[0]?.[0]), '');
});

test('an error undoes the whole batch and has Postgres’ fields', async () => {
  const db = pool();
  await db.query('create table undone (id int primary key)');
  const error = await db
    .batch([{ text: 'insert into undone values (1)' }, { text: 'insert into undone values (1)' }])
    .catch((caught) => caught);
  assert.instance(error, DatabaseError);
  assert.is(error.code, '23505');
  assert.is(error.fields.constraint, 'undone_pkey');
  assert.is(error.fields.detail, 'Key (id)=(1) already exists.');
  assert.equal(await db.query('select * from undone'), []);
});

test('each of hundreds of concurrent batches gets its own results or errors', async () => {
  const db = pool({ connections: 2 });
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, i) =>
      db
        .batch([
          { text: `select set_config('x.y', $1, true)`, values: [String(i)], name: 'set' },
          i % 3 === 0
            ? { text: 'select 1 / ($1::int - $1::int)', values: [i], name: 'fails' }
            : { text: `select current_setting('x.y') || $1::text`, values: ['!'], name: 'works' },
        ])
        .then(
          (results) => text(results[1]?.rows[0]?.[0]),
          (error) => error.code,
        ),
    ),
  );
  assert.equal(
    answers,
    answers.map((_, i) => (i % 3 === 0 ? '22012' : `${i}!`)),
  );
});

test('a named statement works after a change of its columns, and after its table was created again', async () => {
  const db = pool({ connections: 1 });
  const count = () => db.batch([{ text: 'select id from changing where id = $1', values: ['7'], name: 'changing' }]);
  await db.query('create table changing (id int)');
  await count();
  await db.query('alter table changing alter id type text');
  assert.is((await count())[0]?.command, 'SELECT 0');
  await db.query('drop table changing');
  assert.is((await count().catch((error) => error)).code, '42P01');
  await db.query(`create table changing (id int); `);
  await db.query('insert into changing values (7)');
  assert.is((await count())[0]?.command, 'SELECT 1');
});

test('a statement whose Parse was skipped after an error is parsed again', async () => {
  const db = pool({ connections: 1 });
  const batch = (divisor: number) =>
    db.batch([
      { text: 'select 1 / $1::int', values: [divisor] },
      { text: 'select 42', name: 'skipped' },
    ]);
  const answers = await Promise.allSettled([batch(0), batch(1), batch(1)]);
  assert.is((answers[0] as PromiseRejectedResult).reason.code, '22012');
  for (const answer of answers.slice(1))
    assert.is(text((answer as PromiseFulfilledResult<Awaited<ReturnType<typeof batch>>>).value[1]?.rows[0]?.[0]), '42');
});

test('prepared statements on a connection stay within their limit', async () => {
  const db = pool({ connections: 1, statementsPerConnection: 5 });
  for (let i = 0; i < 40; i++) await db.batch([{ text: `select ${i}`, name: `s${i}` }]);
  const [{ count } = { count: -1 }] = await db.query<{ count: number }>(
    'select count(*)::int from pg_prepared_statements',
  );
  assert.is(count, 5);
});

test('values of every kind arrive as Postgres text, and a large value arrives completely', async () => {
  const db = pool();
  const large = 'ü'.repeat(2_000_000);
  const [row] = await db.query(
    'select $1::int as i, $2::bool as b, $3::text as n, $4::jsonb as j, $5::timestamptz as t, $6::text as l, ' +
      '$7::json as raw',
    [7, true, null, { a: ['"'] }, new Date(0), large, Buffer.from('{"x":1}')],
  );
  assert.equal(row, { i: 7, b: true, n: null, j: { a: ['"'] }, t: new Date(0), l: large, raw: { x: 1 } });
});

test('a statement that contains NUL is rejected before it is sent, and NUL in a value by Postgres', async () => {
  const db = pool({ connections: 1 });
  assert.instance(await db.batch([{ text: 'select 1; \0', name: 'nul' }]).catch((error) => error), RangeError);
  assert.is((await db.query('select $1::text', ['a\0b']).catch((error) => error)).code, '22021');
  assert.equal(await db.query('select 1 as one'), [{ one: 1 }]);
});

test('a transaction has its own connection, commits, and rolls back if its work throws', async () => {
  const db = pool({ connections: 2 });
  await db.query('create table moved (id int)');
  await db.transaction(async (transaction) => {
    await transaction.query('insert into moved values ($1)', [1]);
    const outside = await db.query('select * from moved');
    assert.equal(outside, []);
  });
  const failed = await db
    .transaction(async (transaction) => {
      await transaction.query('insert into moved values (2)');
      throw new Error('no');
    })
    .catch((error) => error.message);
  assert.is(failed, 'no');
  assert.equal(await db.query('select * from moved'), [{ id: 1 }]);
});

test('a transaction gets a connection while batches keep arriving', async () => {
  const db = pool({ connections: 1 });
  let done = false;
  const load = Array.from({ length: 8 }, async () => {
    while (!done) await db.batch([{ text: 'select 1', name: 'one' }]);
  });
  await db.transaction((transaction) => transaction.query('select 1'));
  done = true;
  await Promise.all(load);
});

test('a slow statement does not delay others while a connection is available', async () => {
  const db = pool({ connections: 2 });
  await db.query('select 1');
  const slow = db.query('select pg_sleep(30)').catch(() => undefined);
  for (let i = 0; i < 20; i++) await db.query('select 1');
  await pool().query(
    'select pg_terminate_backend(pid) from pg_stat_activity ' +
      `where query like '%pg_sleep(30)%' and pid <> pg_backend_pid()`,
  );
  await slow;
});

test('a slow statement does not delay others while another connection of the account is being opened', async () => {
  const login = { ...postgres.admin(), account: 'of-slow-statements' };
  const db = new Pool(login, { connections: 4 });
  pools.push(db);
  const slow = db.query('select pg_sleep(2)').then(() => 'slow');
  const fast = [1, 2].map(() => db.query('select 1').then(() => 'fast'));
  assert.is(await Promise.race([slow, Promise.all(fast).then(() => 'fast')]), 'fast');
  await slow;
});

test('an error by the limit of one database or role closes no connections of others', async () => {
  const admin = pool();
  await admin.query('select 1');
  await admin.query('create role shut login password $$shut$$ connection limit 0');
  const shut = new Pool({ ...postgres.admin(), user: 'shut', password: 'shut' }, { waitingMs: 200 });
  pools.push(shut);
  assert.instance(await shut.query('select 1').catch((caught) => caught), PoolBusyError);
  assert.is(admin.size, 1);
});

test('a pool retries a full server with one connection at a time, with backoff', async () => {
  const admin = pool();
  await admin.query('create role crowd login password $$crowd$$ connection limit 0');
  let attempts = 0;
  const counting = createServer((socket) => {
    attempts++;
    const server = connect(postgres.port, '127.0.0.1');
    for (const each of [socket, server]) each.on('error', () => undefined);
    socket.pipe(server).pipe(socket);
  });
  await new Promise<void>((resolve) => counting.listen(0, '127.0.0.1', resolve));
  const { port } = counting.address() as AddressInfo;
  const login = { ...postgres.admin(), host: '127.0.0.1', port, user: 'crowd', password: 'crowd' };
  const crowd = new Pool(login, { waitingMs: 2_000 });
  pools.push(crowd);
  const refusals = await Promise.all(
    Array.from({ length: 20 }, () => crowd.query('select 1').catch((caught) => caught)),
  );
  assert.ok(refusals.every((refusal) => refusal instanceof PoolBusyError));
  counting.close();
  // Four concurrent attempts, then after 0.1, 0.2, 0.4, 0.8 and 1 s, each ± 25 %.
  assert.ok(attempts > 4 && attempts < 15, String(attempts));
});

test('a pool limits attempts at a server that closes new connections, and rejects waiting work at once', async () => {
  let attempts = 0;
  const ending = createServer((socket) => {
    attempts++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => ending.listen(0, '127.0.0.1', resolve));
  const { port } = ending.address() as AddressInfo;
  const away = new Pool({ ...postgres.admin(), host: '127.0.0.1', port }, { waitingMs: 2_000 });
  pools.push(away);
  const refusals = await Promise.all(
    Array.from({ length: 20 }, () => away.query('select 1').catch((caught) => caught)),
  );
  ending.close();
  for (const refusal of refusals) assert.instance(refusal, ConnectionError);
  assert.ok(attempts <= 4, String(attempts));
});

/** Port of a server, and a function that closes the server and its connections. */
async function listening(onConnection: (socket: Socket, number: number) => void) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    onConnection(socket, sockets.push(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { port: (server.address() as AddressInfo).port, close };
}

test('work that waits for another connection of its account is rejected after a timeout', async () => {
  const silent = await listening(() => undefined);
  const login = { ...postgres.admin(), host: '127.0.0.1', port: silent.port, account: 'of-a-silent-server' };
  const openings = [1, 2, 3].map(() => {
    const made = new Pool(login, { connectTimeoutMs: 4_000 });
    pools.push(made);
    return made.query('select 1').catch((caught) => caught);
  });
  const last = new Pool(login, { waitingMs: 200, connectTimeoutMs: 4_000 });
  pools.push(last);
  const begun = performance.now();
  assert.instance(await last.query('select 1').catch((caught) => caught), PoolBusyError);
  assert.ok(performance.now() - begun < 3_000);
  silent.close();
  for (const error of await Promise.all(openings)) assert.instance(error, ConnectionError);
});

test('a connection without a response after its login is closed, and others of its account are opened', async () => {
  const proxy = await listening((socket, number) => {
    const server = connect(postgres.port, '127.0.0.1');
    server.on('error', () => undefined);
    server.pipe(socket);
    socket.on('close', () => server.destroy());
    socket.on('data', (chunk) => {
      const isShareCheck = chunk.includes('pg_stat_get_db_numbackends');
      if (number !== 3 || !isShareCheck) server.write(chunk);
    });
  });
  const login = { ...postgres.admin(), host: '127.0.0.1', port: proxy.port, account: 'of-a-proxy' };
  const [one, other, silent, last] = [1, 2, 3, 4].map(() => {
    const made = new Pool(login, { connectTimeoutMs: 1_500, idleMs: 60_000 });
    pools.push(made);
    return made;
  }) as [Pool, Pool, Pool, Pool];
  await one.query('select 1');
  await other.query('select 1');
  const failed = silent.query('select 1').catch((caught) => caught);
  assert.equal(await last.query('select 4 as answer'), [{ answer: 4 }]);
  assert.instance(await failed, ConnectionError);
  proxy.close();
});

test('idle pools release connections of a full server, and work waits until there is room', async () => {
  const admin = pool();
  await admin.query('create role few login password $$few$$ connection limit 2');
  const few = { ...postgres.admin(), user: 'few', password: 'few' };
  const [one, other, third] = [0, 1, 2].map(() => {
    const made = new Pool(few, { connections: 1 });
    pools.push(made);
    return made;
  }) as [Pool, Pool, Pool];
  await one.query('select 1');
  await other.query('select 1');
  assert.equal(await third.query('select 3 as answer'), [{ answer: 3 }]);
  const holder = pool({ connections: 1, idleMs: 60_000 });
  await holder.query('select pg_advisory_lock(7)');
  const slow = [one, other].map((each) => each.query('select pg_advisory_xact_lock_shared(7)'));
  const waiters = `select from pg_locks where locktype = 'advisory' and not granted`;
  await until(async () => (await admin.query(waiters)).length === 2, 'both connections');
  const waits = third.query('select 3 as answer');
  await holder.query('select pg_advisory_unlock(7)');
  assert.equal(await waits, [{ answer: 3 }]);
  await Promise.all(slow);
});

test('work for which a full server has no connection is rejected after a timeout', async () => {
  const admin = pool();
  await admin.query('create role nobody login password $$none$$ connection limit 0');
  const made = new Pool({ ...postgres.admin(), user: 'nobody', password: 'none' }, { waitingMs: 200 });
  pools.push(made);
  const error = await made.query('select 1').catch((caught) => caught);
  assert.instance(error, PoolBusyError);
});

test('waiting work runs on the next connection that accepts work, not behind other waiting work', async () => {
  const db = pool({ connections: 2, underway: 1 });
  const holders = [1, 2, 3].map((key) => ({ key, holder: pool({ connections: 1, idleMs: 60_000 }) }));
  await Promise.all(holders.map(({ key, holder }) => holder.query('select pg_advisory_lock($1)', [key])));
  const waiting = holders.map(({ key }) => db.query('select pg_advisory_xact_lock($1)', [key]));
  const last = db.query('select 1 as one');
  const letGo = async (at: number) => {
    await holders[at]?.holder.query('select pg_advisory_unlock_all()');
    await waiting[at];
  };
  await letGo(1);
  await letGo(0);
  assert.equal(await last, [{ one: 1 }]);
  await letGo(2);
});

test('a connection accepts many concurrent batches only while it responds fast', async () => {
  const waiting = 10;
  const db = pool({ connections: 1, underway: 16, waiting });
  const accepted = async () => {
    const answers = await Promise.allSettled(Array.from({ length: 40 }, () => db.query('select 1')));
    return answers.filter(({ status }) => status === 'fulfilled').length - waiting;
  };
  await until(async () => (await accepted()) === 16, 'all to be taken');
  await db.query('select pg_sleep(0.2)');
  assert.is(await accepted(), 4);
  await until(async () => (await accepted()) === 16, 'all to be taken');
});

test('a closed pool finishes its statements in flight and accepts no new ones', async () => {
  const db = pool();
  await db.query('select 1');
  const last = db.query(`select 'done' as it, pg_sleep(0.05)`);
  await db.close();
  assert.is((await last)[0]?.it, 'done');
  assert.instance(await db.query('select 1').catch((error) => error), ConnectionError);
});

test('work beyond the limit of the queue is rejected at once', async () => {
  const db = pool({ connections: 1, underway: 1, waiting: 2 });
  const answers = await Promise.allSettled(Array.from({ length: 5 }, () => db.query('select 1')));
  const refused = answers.filter((answer) => answer.status === 'rejected');
  assert.ok(refused.length >= 2);
  for (const { reason } of refused) assert.instance(reason, PoolBusyError);
});

test('a batch succeeds after the server closed all connections, and a read is repeated automatically', async () => {
  const db = pool({ connections: 1 });
  const [{ pid } = { pid: 0 }] = await db.query<{ pid: number }>('select pg_backend_pid() as pid');
  const sleeping = db.batch([{ text: 'select pg_sleep(30)' }]).catch((error) => error);
  const reading = db.batch([{ text: `select pg_sleep(0.05), 'read'` }], { repeatable: true });
  await pool().query('select pg_terminate_backend($1)', [pid]);
  assert.instance(await sleeping, ConnectionError);
  assert.is(text((await reading)[0]?.rows[0]?.[1]), 'read');
});

test('a repeated batch succeeds although another connection is closed', async () => {
  const admin = pool({ connections: 1 });
  const db = pool({ connections: 2, underway: 1, idleMs: 60_000 });
  const pidOf = () => db.query<{ pid: number }>('select pg_backend_pid() as pid, pg_sleep(2)');
  const pids = (await Promise.all([pidOf(), pidOf()])).map(([row]) => row?.pid as number);
  assert.is(new Set(pids).size, 2);
  await admin.query('select 1');
  const reading = db.batch([{ text: `select pg_sleep(0.5), 'read'` }], { repeatable: true });
  const reader = await until(async () => {
    const [row] = await admin.query<{ pid: number }>(
      `select pid from pg_stat_activity where pid in ($1, $2) and query like '%read%'`,
      pids,
    );
    return row?.pid;
  }, 'the read');
  const other = pids.find((pid) => pid !== reader) as number;
  await admin.query('select pg_terminate_backend($1), pg_sleep(0.01), pg_terminate_backend($2)', [reader, other]);
  assert.is(text((await reading)[0]?.rows[0]?.[1]), 'read');
});

test('every connection of a pool listens, and the listener is called when a first connection opens again', async () => {
  const notifications: string[] = [];
  let reconnects = 0;
  let listening: () => void = () => undefined;
  const notified = new Promise<void>((resolve) => {
    listening = resolve;
  });
  const db = pool(
    {},
    {
      listen: ['pgrst'],
      onNotification: (channel, payload) => {
        notifications.push(`${channel}: ${payload}`);
        listening();
      },
      onReconnect: () => reconnects++,
    },
  );
  await db.query('select 1');
  await pool().query(`select pg_notify('pgrst', 'reload schema')`);
  await notified;
  assert.equal(notifications, ['pgrst: reload schema']);
  assert.is(reconnects, 1);
});

test('no work is rejected during a rotation of the password: the next password is tried, or waited for', async () => {
  const admin = pool();
  await admin.query(`create role rotated login password 'first'`);
  const login = { ...postgres.admin(), user: 'rotated', password: 'first' };
  const rotated = new Pool(login, { connections: 1 });
  pools.push(rotated);
  const who = () => rotated.query('select current_user as me');
  assert.equal(await who(), [{ me: 'rotated' }]);
  rotated.useLogin({ ...login, nextPassword: 'second' });
  await admin.query(`alter role rotated password 'second'`);
  rotated.closeIdle();
  assert.equal(await who(), [{ me: 'rotated' }]);
  await admin.query(`alter role rotated password 'third'`);
  rotated.closeIdle();
  const waiting = who();
  rotated.useLogin({ ...login, password: 'third' });
  assert.equal(await waiting, [{ me: 'rotated' }]);
});

test('a wrong password is an error that does not contain it', async () => {
  const db = new Pool({ ...postgres.admin(), password: 'canary-of-a-secret' });
  const error = await db.query('select 1').catch((caught) => caught);
  assert.instance(error, ConnectionError);
  assert.not.match(JSON.stringify([error.message, error.stack]), 'canary');
});

test.run();
