/** Connections that break lose nothing and double nothing, and slots never hold the log back for nobody. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { replicationSlotOf } from '@slipway/crds';
import { pino } from 'pino';
import * as assert from 'uvu/assert';
import type { Tenant } from '../tenant.js';
import { until } from '../testing/until.js';
import { ChangeStream } from './changes/stream.js';
import { type RawSocket, REPLICATION_PASSWORD, type RealtimeHarness, realtimeSuite } from './testing/harness.js';

const test = realtimeSuite('realtime through faults');

/** The response of a Postgres that is not ready yet: only the code counts. */
const SAID = Buffer.from('SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0');
const STARTING = Buffer.concat([Buffer.from([0x45, 0, 0, 0, SAID.length + 4]), SAID]);

async function withTable(harness: RealtimeHarness, ref: string): Promise<Tenant> {
  const tenant = await harness.project(ref);
  await harness.sql(tenant, 'create table t (id int primary key); alter publication supabase_realtime add table t');
  return tenant;
}

async function listening(harness: RealtimeHarness, tenant: Tenant): Promise<RawSocket> {
  const socket = await harness.socket(tenant);
  await join(socket);
  return socket;
}

async function join(socket: RawSocket): Promise<void> {
  const before = subscribed(socket);
  const changes = [{ event: 'INSERT', schema: 'public', table: 't' }];
  await socket.ask('realtime:t', 'phx_join', { config: { postgres_changes: changes } });
  await until(() => subscribed(socket) > before, 'the subscription');
}
const subscribed = (socket: RawSocket) =>
  socket.events('system').filter(({ payload }) => payload.message === 'Subscribed to PostgreSQL').length;

const ids = (socket: RawSocket) =>
  socket.events('postgres_changes').map(({ payload }) => (payload.data as { record: { id: number } }).record.id);
const upTo = (last: number) => Array.from({ length: last }, (_, at) => at + 1);
const endReader = (harness: RealtimeHarness, tenant: Tenant) =>
  harness.admin('select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active', [
    replicationSlotOf(tenant.ref),
  ]);

test('a replication connection that is ended again and again, in the middle of large transactions too, loses and doubles no change', async ({
  harness,
}) => {
  const tenant = await withTable(harness, 'broken');
  const socket = await listening(harness, tenant);
  for (let round = 0; round < 8; round++) {
    const from = round * 400 + 1;
    await harness.sql(tenant, `insert into t select generate_series(${from}, ${from + 299})`);
    await Promise.all([
      endReader(harness, tenant),
      harness.sql(tenant, `insert into t select generate_series(${from + 300}, ${from + 399})`),
    ]);
  }
  await until(() => ids(socket).length >= 3200, 'all changes');
  assert.equal(ids(socket), upTo(3200));
});

test('messages of the database come once each though the connections that hear them are ended', async ({ harness }) => {
  const tenant = await harness.project('messages');
  const socket = await harness.socket(tenant);
  await socket.ask('realtime:m', 'phx_join', { config: {} });
  for (let n = 1; n <= 40; n++) {
    await harness.sql(tenant, `select realtime.send('{"n":${n}}', 'e', 'm', false)`);
    if (n % 10 === 0) {
      await harness.admin(
        `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'authenticator.messages'`,
      );
    }
  }
  await until(() => socket.events('broadcast').length >= 40, 'all messages');
  const heard = socket.events('broadcast').map(({ payload }) => (payload.payload as { n: number }).n);
  assert.equal(heard, upTo(40));
});

test('a slot that Postgres gave up is told: the channel errs, and joined again it hears what comes then', async ({
  harness,
}) => {
  const tenant = await withTable(harness, 'lost');
  const socket = await listening(harness, tenant);
  const dropped = async () => {
    await endReader(harness, tenant);
    return harness.admin(`select pg_drop_replication_slot('${replicationSlotOf('lost')}')`).then(
      () => true,
      () => false,
    );
  };
  await until(dropped, 'the slot to be gone');
  await until(() => socket.events('phx_error').length === 1, 'the channel to err');
  assert.match(JSON.stringify(socket.events('system').at(-1)), /Changes were lost.*Subscribe again/);
  await join(socket);
  await harness.sql(tenant, 'insert into t values (1)');
  await until(() => ids(socket).length === 1, 'the change');
});

test('what other databases write does not pile up behind a slot', async ({ harness }) => {
  const [quiet, busy] = [await withTable(harness, 'quiet'), await withTable(harness, 'busy')];
  await listening(harness, quiet);
  await harness.sql(busy, 'insert into t select generate_series(1, 1000)');
  const [{ lsn } = { lsn: '' }] = await harness.admin('select pg_current_wal_lsn()::text as lsn');
  const passed = async () => {
    const [row] = await harness.admin(
      'select confirmed_flush_lsn >= $2::pg_lsn as passed from pg_replication_slots where slot_name = $1',
      [replicationSlotOf('quiet'), lsn],
    );
    return row?.passed === true;
  };
  await until(passed, 'the slot to move on');
});

test('a project that is let go leaves no slot, and one without subscribers never has one', async ({ harness }) => {
  const slots = (ref: string) =>
    harness.admin('select slot_name from pg_replication_slots where slot_name = $1', [replicationSlotOf(ref)]);
  const [tenant, other] = [await withTable(harness, 'gone'), await harness.project('broadcasts-only')];
  const socket = await harness.socket(other);
  await socket.ask('realtime:x', 'phx_join', { config: {} });
  await listening(harness, tenant);
  assert.is((await slots('gone')).length, 1);
  assert.equal(await slots('broadcasts-only'), []);
  await harness.forget(tenant);
  assert.equal(await slots('gone'), []);
});

test('a Postgres that takes long to start loses no change', async ({ harness }) => {
  const tenant = await withTable(harness, 'starting');
  let [isStarting, refused] = [false, 0];
  const sockets = new Set<Socket>();
  const { port } = harness.cluster.postgres;
  const between = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    if (isStarting) {
      refused++;
      socket.once('data', () => socket.end(STARTING));
      return;
    }
    const there = connect(port, '127.0.0.1').on('error', () => undefined);
    socket.pipe(there).pipe(socket);
  });
  await new Promise<void>((resolve) => between.listen(0, '127.0.0.1', resolve));
  const authenticator = { ...tenant.authenticator, host: '127.0.0.1', port: (between.address() as AddressInfo).port };
  const [heard, lost]: [unknown[], string[]] = [[], []];
  const events = {
    deliver: async (changes: readonly { record: unknown }[]) => void heard.push(...changes),
    onLost: () => void lost.push('lost'),
    onTrouble: () => undefined,
  };
  const login = async () => REPLICATION_PASSWORD;
  const stream = new ChangeStream({ ...tenant, authenticator }, login, events, pino({ level: 'silent' }));
  try {
    await stream.start();
    isStarting = true;
    for (const socket of sockets) socket.destroy();
    await until(() => refused > 8, 'tries');
    await harness.sql(tenant, 'insert into t values (1)');
    isStarting = false;
    await until(() => heard.length === 1 || lost.length > 0, 'the change');
    assert.equal(lost, []);
  } finally {
    await stream.stop();
    for (const socket of sockets) socket.destroy();
    between.close();
  }
});

test('a stream that is stopped while it logs in ends, and leaves no slot', async ({ harness }) => {
  const tenant = await withTable(harness, 'stopped');
  const [asked, told] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const login = () => {
    asked.resolve();
    return told.promise;
  };
  const events = { deliver: async () => undefined, onLost: () => undefined, onTrouble: () => undefined };
  const stream = new ChangeStream(tenant, login, events, pino({ level: 'silent' }));
  stream.start().catch(() => undefined);
  await asked.promise;
  let hasEnded = false;
  const stopping = stream.stop().then(() => {
    hasEnded = true;
  });
  told.resolve(REPLICATION_PASSWORD);
  await until(() => hasEnded, 'the stream to end');
  await stopping;
  const slots = await harness.admin('select from pg_replication_slots where slot_name = $1', [
    replicationSlotOf('stopped'),
  ]);
  assert.is(slots.length, 0);
});

test('a database that is older than the schema realtime is given it when it is first asked for', async ({
  harness,
}) => {
  const tenant = await harness.project('older');
  await harness.sql(tenant, 'drop schema realtime cascade');
  const socket = await harness.socket(tenant);
  assert.is((await socket.ask('realtime:x', 'phx_join', { config: {} })).status, 'ok');
  await harness.sql(tenant, `select realtime.send('{}', 'e', 'x', false)`);
  await until(() => socket.events('broadcast').length === 1, 'the message');
});

// The last: the tests' own session as superuser does not survive it.
test('the reader killed with -9, which restarts Postgres as a whole, loses and doubles no change', async ({
  harness,
}) => {
  const tenant = await withTable(harness, 'killed');
  const socket = await listening(harness, tenant);
  await harness.sql(tenant, 'insert into t select generate_series(1, 50)');
  const [reader] = await harness.admin('select active_pid from pg_replication_slots where slot_name = $1', [
    replicationSlotOf('killed'),
  ]);
  process.kill(reader?.active_pid as number, 'SIGKILL');
  const insert = () =>
    harness.sql(tenant, 'insert into t select generate_series(51, 100) on conflict do nothing').then(
      () => true,
      () => false,
    );
  await until(insert, 'Postgres to be back');
  await until(() => ids(socket).length >= 100, 'all changes');
  assert.equal(ids(socket), upTo(100));
});

test.run();
