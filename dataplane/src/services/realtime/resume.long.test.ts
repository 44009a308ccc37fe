/** Tests that broken connections neither lose nor repeat a change, and that an unused slot does not retain the log. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { replicationSlotOf } from '@slipway/installation';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import * as assert from 'uvu/assert';
import type { BackendTenant } from '../../projects/tenant.js';
import { ChangeStream } from './changes/stream.js';
import { type RawSocket, REPLICATION_PASSWORD, type RealtimeHarness, realtimeSuite } from './testing/harness.js';

const test = realtimeSuite('realtime through faults');

/** Error response of a Postgres that is not ready; only its code matters. */
const SAID = Buffer.from('SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0');
const STARTING = Buffer.concat([Buffer.from([0x45, 0, 0, 0, SAID.length + 4]), SAID]);

async function withTable(harness: RealtimeHarness, ref: string): Promise<BackendTenant> {
  const tenant = await harness.project(ref);
  await harness.sql(tenant, 'create table t (id int primary key); alter publication supabase_realtime add table t');
  return tenant;
}

async function listening(harness: RealtimeHarness, tenant: BackendTenant): Promise<RawSocket> {
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
const endReader = (harness: RealtimeHarness, tenant: BackendTenant) =>
  harness.admin('select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active', [
    replicationSlotOf(tenant.ref),
  ]);

test('each change is sent once although its connection breaks often, also in large transactions', async ({
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

test('each message of the database arrives once although the listening connections are ended', async ({ harness }) => {
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
  const numbers = socket.events('broadcast').map(({ payload }) => (payload.payload as { n: number }).n);
  assert.equal(numbers, upTo(40));
});

test('a channel whose slot Postgres invalidated gets an error, joins again, and receives later changes', async ({
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

test('a replication slot does not retain the log for changes of other databases', async ({ harness }) => {
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

test('a replication slot exists only while its project has subscribers to changes', async ({ harness }) => {
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
  const [received, lost]: [unknown[], string[]] = [[], []];
  const events = {
    deliver: async (changes: readonly { record: unknown }[]) => void received.push(...changes),
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
    await until(() => received.length === 1 || lost.length > 0, 'the change');
    assert.equal(lost, []);
  } finally {
    await stream.stop();
    for (const socket of sockets) socket.destroy();
    between.close();
  }
});

test('a change stream that is stopped during its login ends, and leaves no slot', async ({ harness }) => {
  const tenant = await withTable(harness, 'stopped');
  const [requested, password] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const login = () => {
    requested.resolve();
    return password.promise;
  };
  const events = { deliver: async () => undefined, onLost: () => undefined, onTrouble: () => undefined };
  const stream = new ChangeStream(tenant, login, events, pino({ level: 'silent' }));
  stream.start().catch(() => undefined);
  await requested.promise;
  let hasEnded = false;
  const stopping = stream.stop().then(() => {
    hasEnded = true;
  });
  password.resolve(REPLICATION_PASSWORD);
  await until(() => hasEnded, 'the stream to end');
  await stopping;
  const slots = await harness.admin('select from pg_replication_slots where slot_name = $1', [
    replicationSlotOf('stopped'),
  ]);
  assert.is(slots.length, 0);
});

test('a database without the schema realtime gets the schema at the first use', async ({ harness }) => {
  const tenant = await harness.project('older');
  await harness.sql(tenant, 'drop schema realtime cascade');
  const socket = await harness.socket(tenant);
  assert.is((await socket.ask('realtime:x', 'phx_join', { config: {} })).status, 'ok');
  await harness.sql(tenant, `select realtime.send('{}', 'e', 'x', false)`);
  await until(() => socket.events('broadcast').length === 1, 'the message');
});

// Runs last, because the tests' own superuser session does not survive it.
test('no change is lost or repeated when a reader is killed with -9, which restarts all of Postgres', async ({
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
