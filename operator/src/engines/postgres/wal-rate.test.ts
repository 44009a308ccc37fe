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
  context.postgres = await startTestPostgres({ autovacuum_naptime: '1s' });
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

/** Statement that writes messages to the log, for which Postgres assigns no transaction id. */
const WITHOUT_ID = `do $$ begin loop
  perform pg_logical_emit_message(false, '', repeat('x', 100000)); perform pg_sleep(0.0005);
end loop; end $$`;

for (const [what, write] of Object.entries({
  'one statement after the other': async (client: pg.Client) => {
    for (;;) await client.query(`begin; ${ROWS}; truncate rows; commit`);
  },
  'one statement without end': (client: pg.Client) => client.query(ONE_STATEMENT),
  'one statement without a transaction id': (client: pg.Client) => client.query(WITHOUT_ID),
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

test('an automatic ANALYZE that writes too much by a function of an index is ended', async (context) => {
  const greedy = await login(context, 'greedy');
  await greedy.query(`
    create function harm(value int) returns int language plpgsql immutable as $$ begin
      if current_setting('application_name') = 'owner' then return value; end if;
      for n in 1..100000 loop perform pg_logical_emit_message(true, '', repeat('x', 100000)); end loop;
      return value;
    end $$;
    set application_name = 'owner';
    create table analyzed (n int) with (autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0);
    create index on analyzed (harm(n))`);
  await greedy.query('insert into analyzed values (1)');
  const before = context.ended.length;
  // A session counts its rows at its end, or once it has been idle for 10 s.
  await greedy.end();
  await until(() => context.ended.length > before, 'a report');
  const { database, role } = context.ended[before] as EndedSession;
  assert.equal([database, role], [databaseOf('greedy'), null]);
});

const GB = 1e9;
const writer = (over: Partial<Writer & { account: string }>): Writer & { account: string } => ({
  pid: 1,
  startedAt: '1',
  database: 'p-a',
  account: 'a',
  role: 'postgres.a',
  wal: 0,
  written: 0,
  mayWrite: true,
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
  const sums = meter.look([writer({ wal: 2.2 * GB, mayWrite: false })], 2.2 * GB, 11_000);
  assert.ok(most > 2 * GB && most < WAL_BYTES_A_MINUTE.free);
  assert.ok(Math.abs((sums.get('a') ?? 0) - 2.2 * GB) < 1, 'the log is not counted twice');
});

test('an idle transaction is not charged for log that another session wrote between two statements', () => {
  const meter = new WalMeter();
  const holder = writer({ pid: 2, account: 'b', written: 5 });
  meter.look([writer({ mayWrite: false }), holder], 0, 0);
  const between = writer({ mayWrite: false, wal: 10, written: GB });
  assert.equal([...meter.look([between, holder], GB, 1_000).keys()], ['a']);
});

test('a session that wrote little is not charged for log of sessions that ended between two looks', () => {
  const meter = new WalMeter();
  meter.look([writer({ pid: 2, account: 'b' })], 0, 0);
  const sums = meter.look([writer({ pid: 2, account: 'b', written: 100 })], GB, 1_000);
  assert.equal([...sums], [['b', 100]]);
});

test('an automatic ANALYZE is not charged for the log of a VACUUM before it', () => {
  const meter = new WalMeter();
  meter.look([], 0, 0);
  const analyzing = writer({ role: null, wal: 2 * GB, written: 2 * GB });
  meter.look([analyzing], 2 * GB, 1_000);
  const sums = meter.look([{ ...analyzing, written: 2 * GB + 7 }], 2 * GB + 7, 2_000);
  assert.equal([...sums], [['a', 7]]);
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
