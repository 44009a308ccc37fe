import { databaseOf, ownerRole, WAL_BYTES_A_MINUTE } from '@slipway/installation';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { silentLog } from '../../testing.js';
import type { EndedSession } from './session-watch.js';
import { WalMeter, WalRate, type Writer } from './wal-rate.js';

interface Context {
  postgres: TestPostgres;
  superuser: pg.Client;
  rate: WalRate;
  ended: EndedSession[];
}

const test = suite<Context>('the rate of the write-ahead log');
const LIMIT = 150e6;

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.superuser = new pg.Client(context.postgres.admin());
  await context.superuser.connect();
  for (const id of ['greedy', 'modest']) {
    await context.superuser.query(`CREATE ROLE "${ownerRole(id)}" LOGIN PASSWORD 'o'`);
    await context.superuser.query(`CREATE DATABASE "${databaseOf(id)}" OWNER "${ownerRole(id)}"`);
  }
  const projects = new Map(
    ['greedy', 'modest'].map((ref) => [databaseOf(ref), { ref, owner: `${ref}@example.com`, plan: 'free' as const }]),
  );
  context.ended = [];
  const session = { query: (sql: string) => context.superuser.query(sql) };
  const limits = { ...WAL_BYTES_A_MINUTE, free: LIMIT };
  context.rate = new WalRate(session, projects, (ended) => context.ended.push(ended), silentLog, limits);
  context.rate.start();
});
test.after(async ({ postgres, superuser, rate }) => {
  rate.close();
  await superuser.end();
  await postgres.close();
});

async function login({ postgres }: Context, id: string): Promise<pg.Client> {
  const client = new pg.Client({ ...postgres.admin(databaseOf(id)), user: ownerRole(id), password: 'o' });
  client.on('error', () => {});
  await client.connect();
  await client.query('create table if not exists rows (t text)');
  return client;
}

const ROWS = 'insert into rows select repeat(md5(n::text), 32) from generate_series(1, 5000) n';
/** Statement that commits again and again. Postgres counts its log only when the statement ends. */
const ONE_STATEMENT = `do $$ begin loop ${ROWS}; commit; truncate rows; commit; end loop; end $$`;

for (const [what, write] of Object.entries({
  'one statement after the other': async (client: pg.Client) => {
    for (;;) await client.query(`begin; ${ROWS}; truncate rows; commit`);
  },
  'one statement without end': (client: pg.Client) => client.query(ONE_STATEMENT),
})) {
  test(`an account that writes too much by ${what} loses its session, and no other account does`, async (context) => {
    const [greedy, modest] = [await login(context, 'greedy'), await login(context, 'modest')];
    await modest.query(`begin; ${ROWS}`);
    // Between two statements, the end of a session is an event of the connection. The next statement then fails without
    // a code.
    const error = await new Promise<{ code?: string }>((resolve) => {
      greedy.once('error', resolve);
      write(greedy).catch(resolve);
    });
    assert.is(error.code, '57P01');
    await until(() => context.ended.length > 0, 'a report');
    assert.ok(context.ended.every(({ database }) => database === databaseOf('greedy')));
    assert.match(context.ended[0]?.message ?? '', /more than 0\.1 GB of write-ahead log in the last minute/);
    await modest.query('commit');
    await modest.end();
  });
}

const GB = 1e9;
const writer = (over: Partial<Writer & { account: string }>): Writer & { account: string } => ({
  pid: 1,
  startedAt: '1',
  database: 'p-a',
  account: 'a',
  role: 'postgres.a',
  wal: 0,
  written: 0,
  isInTransaction: true,
  ...over,
});

test('a restore of 1 GB on plan free succeeds at any speed, with the log of its indexes', () => {
  const meter = new WalMeter();
  meter.look([writer({})], 0, 0);
  let most = 0;
  // One COPY, which Postgres counts only at its end.
  for (let second = 1; second <= 10; second++) {
    const sums = meter.look([writer({ written: second * 0.22 * GB })], second * 0.22 * GB, second * 1000);
    most = Math.max(most, sums.get('a') ?? 0);
  }
  const sums = meter.look([writer({ wal: 2.2 * GB, isInTransaction: false })], 2.2 * GB, 11_000);
  assert.ok(most > 2 * GB && most < WAL_BYTES_A_MINUTE.free);
  assert.ok(Math.abs((sums.get('a') ?? 0) - 2.2 * GB) < 1, 'the log is not counted twice');
});

test('an idle transaction is not charged for log that another session wrote between two statements', () => {
  const meter = new WalMeter();
  const holder = writer({ pid: 2, account: 'b', written: 5 });
  meter.look([writer({ isInTransaction: false }), holder], 0, 0);
  const between = writer({ isInTransaction: false, wal: 10, written: GB });
  assert.equal([...meter.look([between, holder], GB, 1_000).keys()], ['a']);
});

test('a session that wrote little is not charged for log of sessions that ended between two looks', () => {
  const meter = new WalMeter();
  meter.look([writer({ pid: 2, account: 'b' })], 0, 0);
  const sums = meter.look([writer({ pid: 2, account: 'b', written: 100 })], GB, 1_000);
  assert.equal([...sums], [['b', 100]]);
});

test('written log counts for a minute, and for the sessions that wrote it', () => {
  const meter = new WalMeter();
  const quiet = writer({ pid: 2, account: 'b', written: 5 });
  meter.look([writer({}), quiet], 0, 0);
  assert.equal([...meter.look([writer({ written: GB }), quiet], GB, 1_000)], [['a', GB]]);
  assert.equal([...meter.look([quiet], GB, 60_999)], [['a', GB]]);
  assert.equal([...meter.look([quiet], GB, 61_000)], []);
});

test.run();
