/**
 * Tests limits on the depth and the bytes of input from clients and owners, and that an ended channel ignores late
 * responses.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { authenticatorRole, REALTIME_LIMITS, replicationSlotOf } from '@slipway/installation';
import { until } from '@slipway/testing';
import { Client } from 'pg';
import { pino } from 'pino';
import * as assert from 'uvu/assert';
import type { BackendTenant } from '../../projects/tenant.js';
import { type Change, ChangeStream } from './changes/stream.js';
import { MAX_JOIN_BYTES } from './limits.js';
import {
  MOST_READ,
  OF_ONE_ACCOUNT,
  type RawSocket,
  REPLICATION_PASSWORD,
  type RealtimeHarness,
  realtimeSuite,
} from './testing/harness.js';

const test = realtimeSuite('bounds of realtime');

const join = (socket: RawSocket, topic: string, config: object = {}) =>
  socket.ask(`realtime:${topic}`, 'phx_join', { config });
const broadcasts = (socket: RawSocket) => socket.events('broadcast').map(({ payload }) => payload.payload);
const track = (value: unknown) => ({ type: 'presence', event: 'track', payload: value });

/**
 * V8 serializes an object with an index as a key recursively: deeper nesting than that can be parsed, but not written.
 */
const deep = (depth: number) => `{"0":0,"x":${'['.repeat(depth)}${']'.repeat(depth)}}`;

test('a message that nests too deep to be forwarded closes only the socket that sent it', async ({ harness }) => {
  const tenant = await harness.project('deep');
  const bystander = await harness.socket(tenant);
  await join(bystander, 'x');
  const message = (event: string, payload: string) => [
    `{"topic":"realtime:x","event":"${event}","ref":"2","payload":${payload}}`,
    `["1","2","realtime:x","${event}",${payload}]`,
  ];
  const bomb = deep(30_000);
  for (const [event, payload] of [
    ['broadcast', bomb],
    ['broadcast', `{"type":"broadcast","event":"e","payload":${bomb}}`],
    ['presence', `{"type":"presence","event":"track","payload":${bomb}}`],
    ['phx_join', `{"config":{"postgres_changes":[${bomb}]}}`],
  ] as const) {
    for (const version of ['1.0.0', '2.0.0'] as const) {
      const socket = await harness.socket(tenant, tenant.anonKey, version);
      const [old, now] = message(event, payload);
      socket.webSocket.send(
        version === '1.0.0'
          ? `{"topic":"realtime:x","event":"phx_join","ref":"1","payload":{}}`
          : '["1","1","realtime:x","phx_join",{}]',
      );
      await until(() => socket.received.length > 0, 'the join');
      socket.webSocket.send(version === '1.0.0' ? (old as string) : (now as string));
      await until(() => socket.closed !== undefined, 'its end');
      assert.is(socket.closed?.code, 1007);
    }
  }
  const rest = await fetch(`${harness.url(tenant)}/api/broadcast`, {
    method: 'POST',
    headers: { apikey: tenant.anonKey, 'content-type': 'application/json' },
    body: `{"messages":[{"topic":"x","event":"e","payload":${bomb}}]}`,
  });
  assert.is(rest.status, 422);
  const socket = await harness.socket(tenant);
  await join(socket, 'x');
  socket.push('realtime:x', 'broadcast', { type: 'broadcast', event: 'e', payload: JSON.parse(deep(400)) });
  await until(() => broadcasts(bystander).length > 0, 'a message that is deep enough');
  assert.equal(JSON.stringify(broadcasts(bystander)), `[${deep(400)}]`);
});

test('the reply to a join has only known settings, and a large join is rejected', async ({ harness }) => {
  const tenant = await harness.project('joins');
  const socket = await harness.socket(tenant);
  const spec = { event: 'INSERT', schema: 'public', table: 't', filter: 'id=eq.1', select: ['id'] };
  const changes = [{ ...spec, ballast: [[], []], table2: 'x' }];
  const answer = await join(socket, 'a', { postgres_changes: changes });
  const [{ id, ...notice }] = (answer.response as { postgres_changes?: { id: number }[] }).postgres_changes as [
    { id: number },
  ];
  assert.equal(notice, spec);
  assert.ok(id > 0);
  const large = await join(socket, 'b', { ballast: 'x'.repeat(MAX_JOIN_BYTES) });
  assert.is(large.status, 'error');
  assert.match(large.response.reason as string, /^InvalidJoinPayload: .*65536 bytes/);
});

test('a presence beyond the project’s limit of bytes is rejected until another presence has left', async ({
  harness,
}) => {
  const tenant = await harness.project('present', 'free');
  const { heldBytes, payloadBytes, presenceEventsPerSecond } = REALTIME_LIMITS.free;
  const ballast = 'x'.repeat(payloadBytes - 200);
  const sockets = [await harness.socket(tenant), await harness.socket(tenant)];
  const tracked: [RawSocket, string][] = [];
  let refused: { status: string; response: { reason?: string } } | undefined;
  while (refused === undefined && tracked.length <= heldBytes / payloadBytes + 1) {
    const socket = sockets[tracked.length % 2] as RawSocket;
    const topic = `t${tracked.length}`;
    await join(socket, topic, { presence: { enabled: false } });
    const answer = await socket.ask(`realtime:${topic}`, 'presence', track({ ballast }));
    if (answer.status === 'ok') tracked.push([socket, topic]);
    else refused = answer;
    socket.received.length = 0;
    await pause(1_000 / presenceEventsPerSecond);
  }
  assert.match(refused?.response.reason as string, /tracks too much/);
  assert.ok(tracked.length > 100, String(tracked.length));
  const [socket, topic] = tracked[0] as [RawSocket, string];
  await socket.ask(`realtime:${topic}`, 'phx_leave', {});
  await join(socket, topic);
  assert.is((await socket.ask(`realtime:${topic}`, 'presence', track({ ballast }))).status, 'ok');
});

test('the presences of a topic have a limit of bytes, because each client that joins receives them all', async ({
  harness,
}) => {
  const tenant = await harness.project('crowded', 'free');
  const { presenceBytes, payloadBytes } = REALTIME_LIMITS.free;
  const ballast = 'x'.repeat(payloadBytes - 200);
  const fit = Math.floor(presenceBytes / payloadBytes);
  const sockets = await Promise.all(Array.from({ length: fit + 1 }, () => harness.socket(tenant)));
  const ask = (socket: RawSocket, value: unknown) => socket.ask('realtime:c', 'presence', track(value));
  for (const [at, socket] of sockets.entries()) {
    await join(socket, 'c', { presence: { enabled: false, key: `k${at}` } });
    const answer = await ask(socket, { ballast });
    assert.is(answer.status, at < fit ? 'ok' : 'error');
    if (at === fit) assert.match(answer.response.reason as string, /topic tracks too much/);
  }
  const [first, late] = [sockets[0] as RawSocket, sockets[fit] as RawSocket];
  assert.is((await ask(first, { ballast: `${ballast.slice(1_000)}y` })).status, 'ok');
  await first.ask('realtime:c', 'presence', { type: 'presence', event: 'untrack' });
  assert.is((await ask(late, { ballast })).status, 'ok');
  const witness = await harness.socket(tenant);
  await join(witness, 'c', { presence: { enabled: true } });
  await until(() => witness.events('presence_state').length > 0, 'the state');
  const state = witness.events('presence_state')[0]?.payload as Record<string, { metas: { ballast: string }[] }>;
  assert.equal(Object.keys(state), ['k1', 'k2', 'k3', 'k4']);
  assert.ok(Object.values(state).every(({ metas }) => metas.length === 1 && metas[0]?.ballast === ballast));
});

test('messages that wait for an earlier message have a limit of bytes', async ({ harness }) => {
  const tenant = await harness.project('waiting', 'free');
  // The database checks read permission, but has no free connection while these messages arrive.
  await harness.admin(`alter role "${authenticatorRole('waiting')}" connection limit 0`);
  const socket = await harness.socket(tenant);
  socket.push('realtime:w', 'phx_join', { config: { private: true } });
  const large = { type: 'broadcast', event: 'e', payload: 'x'.repeat(3_000_000) };
  for (let count = 0; count <= REALTIME_LIMITS.free.heldBytes / 3_000_000; count++)
    socket.push('realtime:w', 'broadcast', large);
  const messages = () => socket.events('system').map(({ payload }) => payload.message);
  await until(() => messages().length > 0, 'its end');
  assert.equal(messages(), ['Too many messages per second']);
});

test('a database message beyond the size limit of clients’ messages is dropped, and others arrive', async ({
  harness,
}) => {
  const tenant = await harness.project('large', 'free');
  const socket = await harness.socket(tenant);
  await join(socket, 'm');
  await harness.sql(
    tenant,
    `select realtime.send(jsonb_build_object('n', 1), 'e', 'm', false),
      realtime.send(jsonb_build_object('n', 2, 'x', repeat('x', 300000)), 'e', 'm', false),
      realtime.send(jsonb_build_object('n', 3), 'e', 'm', false)`,
  );
  await until(() => broadcasts(socket).length >= 2, 'both messages');
  assert.equal(
    broadcasts(socket).map((payload) => (payload as { n: number }).n),
    [1, 3],
  );
});

async function subscribed(socket: RawSocket, topic: string, ...subscriptions: object[]): Promise<void> {
  await join(socket, topic, { postgres_changes: subscriptions });
  const isSubscribed = () =>
    socket.events('system').some(({ payload }) => payload.channel === topic && payload.status === 'ok');
  await until(isSubscribed, 'the subscription');
}
const ids = (socket: RawSocket) =>
  socket.events('postgres_changes').map(({ payload }) => (payload.data as { record: { id: number } }).record.id);

async function withTable(harness: RealtimeHarness, ref: string): Promise<BackendTenant> {
  const tenant = await harness.project(ref);
  await harness.sql(
    tenant,
    `create table t (id int primary key, body text); grant select on t to anon;
     alter publication supabase_realtime add table t`,
  );
  return tenant;
}

test('reading of the log pauses while large rows are not delivered', async ({ harness }) => {
  const tenant = await withTable(harness, 'unread');
  const events = { deliver: () => new Promise<void>(() => {}), onLost: () => undefined, onTrouble: () => undefined };
  const stream = new ChangeStream(tenant, async () => REPLICATION_PASSWORD, events, pino({ level: 'silent' }));
  await stream.start();
  for (let row = 0; row < 40; row++)
    await harness.sql(tenant, `insert into t values ($1, repeat('x', 3000000))`, [row]);
  const [{ lsn } = { lsn: '' }] = await harness.admin('select pg_current_wal_lsn()::text as lsn');
  await pause(2_000);
  const [sent] = await harness.admin(
    `select sent_lsn < $1::pg_lsn as behind from pg_stat_replication where application_name = 'slipway-realtime'
     and pid = (select active_pid from pg_replication_slots where slot_name = $2)`,
    [lsn, replicationSlotOf('unread')],
  );
  await stream.stop();
  assert.equal(sent, { behind: true });
});

test('changes of more tables than the limit are reported as lost, and later changes arrive', async ({ harness }) => {
  const tenant = await withTable(harness, 'wide-tables');
  let lost = 0;
  const ids: unknown[] = [];
  const events = {
    deliver: async (changes: readonly Change[]) => void ids.push(...changes.map(({ record }) => record?.[0])),
    onLost: () => void lost++,
    onTrouble: () => undefined,
  };
  const stream = new ChangeStream(tenant, async () => REPLICATION_PASSWORD, events, pino({ level: 'silent' }));
  await stream.start();
  await harness.sql(
    tenant,
    `do $$ declare columns text := (select string_agg(repeat('c', 50) || n || ' int', ',')
       from generate_series(1, 1500) n);
     begin for n in 1..120 loop
       execute format('create table wide%s (%s)', n, columns);
       execute format('alter publication supabase_realtime add table wide%s', n);
       execute format('insert into wide%s default values', n);
     end loop; end $$`,
  );
  await until(() => lost === 1, 'the loss');
  await until(async () => {
    await harness.sql(tenant, `insert into t select coalesce(max(id), 0) + 1 from t`);
    await pause(100);
    return ids.some((id) => typeof id === 'string');
  }, 'a change that comes later');
  await stream.stop();
  assert.is(lost, 1);
});

test('all large rows of one transaction arrive', async ({ harness }) => {
  const tenant = await withTable(harness, 'rows');
  const socket = await harness.socket(tenant);
  await subscribed(socket, 'rows', { event: '*', schema: 'public', table: 't' });
  await harness.sql(tenant, `insert into t select n, repeat('x', 3000000) from generate_series(1, 40) n`);
  await until(() => ids(socket).length >= 40, 'all rows');
  assert.equal(
    ids(socket),
    Array.from({ length: 40 }, (_, at) => at + 1),
  );
});

test('a pattern filter on a number does not block changes for other subscribers', async ({ harness }) => {
  const tenant = await withTable(harness, 'patterns');
  const [odd, plain] = [await harness.socket(tenant), await harness.socket(tenant)];
  const spec = { event: '*', schema: 'public', table: 't' };
  for (const [at, test] of ['like.abc%', 'not.like.x', 'ilike.%', 'match.^a', 'imatch.b', 'not.imatch.b'].entries()) {
    await subscribed(odd, `odd${at}`, { ...spec, filter: `id=${test}` });
  }
  await subscribed(plain, 'plain', spec);
  await harness.sql(tenant, 'insert into t values (1), (2)');
  await until(() => ids(plain).length === 2, 'the changes');
});

const POLICIES = `create policy slow_to_read on realtime.messages for select to anon using (true);
  create policy slow_to_write on realtime.messages for insert to anon
    with check ((select true from pg_sleep(case extension when 'presence' then 2 else 0 end)))`;

test('a client that leaves during the check of its first presence is not present', async ({ harness }) => {
  const tenant = await harness.project('ghosts');
  await harness.sql(tenant, POLICIES);
  const [ghost, witness] = [await harness.socket(tenant), await harness.socket(tenant)];
  assert.is((await join(ghost, 'p', { private: true })).status, 'ok');
  await join(witness, 'p', { private: true, presence: { enabled: true } });
  ghost.push('realtime:p', 'presence', track({ here: true }));
  await pause(200);
  ghost.webSocket.terminate();
  await pause(3_500);
  assert.equal(witness.events('presence_diff'), []);
});

/** Writes `count` messages without an index, so that finding the last one takes a while. */
async function fillWithPast(harness: RealtimeHarness, tenant: BackendTenant, topic: string): Promise<void> {
  await harness.sql(tenant, POLICIES);
  await harness.sql(
    tenant,
    `insert into realtime.messages (topic, extension, event, payload, private)
     select $1, 'broadcast', 'e', jsonb_build_object('n', n), true from generate_series(1, 200000) n`,
    [topic],
  );
  const role = authenticatorRole(tenant.ref);
  for (const scan of ['indexscan', 'bitmapscan']) await harness.admin(`alter role "${role}" set enable_${scan} = off`);
}

test('a client that leaves during a replay is not subscribed to changes', async ({ harness }) => {
  const tenant = await withTable(harness, 'left');
  await fillWithPast(harness, tenant, 'r');
  const socket = await harness.socket(tenant);
  const config = {
    private: true,
    broadcast: { replay: { since: 0 } },
    postgres_changes: [{ event: '*', schema: 'public', table: 't' }],
  };
  // Sent right after the join, so that it is processed before the last message is found.
  socket.webSocket.on('message', (data) => {
    if (String(data).includes('"phx_reply"') && socket.received.length === 1)
      socket.push('realtime:r', 'phx_leave', {});
  });
  assert.is((await join(socket, 'r', config)).status, 'ok');
  await pause(3_000);
  assert.equal(socket.events('broadcast'), []);
  const slots = await harness.admin('select from pg_replication_slots where slot_name = $1', [
    replicationSlotOf('left'),
  ]);
  assert.is(slots.length, 0);
});

test('a message that is sent during a replay arrives once', async ({ harness }) => {
  const tenant = await harness.project('once');
  await fillWithPast(harness, tenant, 'o');
  const socket = await harness.socket(tenant);
  await join(socket, 'other');
  const writer = harness.sql(
    tenant,
    `begin; lock table realtime.messages; select realtime.send('{"n":0}', 'e', 'o', true), pg_sleep(0.5); commit`,
  );
  await pause(200);
  await join(socket, 'o', { private: true, broadcast: { replay: { since: 0, limit: 2 } } });
  await writer;
  await until(() => socket.events('broadcast').length >= 2, 'what is replayed');
  const news = () => socket.events('broadcast').filter(({ payload }) => (payload.payload as { n: number }).n === 0);
  await until(() => news().length > 0, 'the message');
  await pause(500);
  assert.is(news().length, 1);
});

test('a subscriber gets the status "starting" while a transaction of another project is open', async ({ harness }) => {
  const [tenant, neighbour] = await Promise.all([harness.project('waits'), harness.project('holds')]);
  await harness.sql(tenant, 'create table t (id int primary key); alter publication supabase_realtime add table t');
  const holder = new Client(neighbour.owner);
  await holder.connect();
  try {
    await holder.query('begin; select pg_current_xact_id()');
    const socket = await harness.socket(tenant);
    await join(socket, 'changes', { postgres_changes: [{ event: '*', schema: 'public', table: 't' }] });
    const statuses = () => socket.events('system').map(({ payload }) => payload.status);
    await until(() => statuses().length > 0, 'the state');
    assert.equal(statuses(), ['starting']);
    await holder.query('commit');
    await until(() => statuses().length > 1, 'the subscription');
    assert.equal(statuses(), ['starting', 'ok']);
  } finally {
    await holder.end();
  }
});

test('an account has a share of the replication slots, and an unsubscribed project frees its slot', async ({
  harness,
}) => {
  const slots = async () =>
    (await harness.admin(`select slot_name from pg_replication_slots where slot_name like '%one_account%'`)).length;
  const listen = async (tenant: BackendTenant) => {
    await harness.sql(tenant, 'create table t (id int primary key); alter publication supabase_realtime add table t');
    const socket = await harness.socket(tenant);
    await join(socket, 'changes', { postgres_changes: [{ event: '*', schema: 'public', table: 't' }] });
    const notice = await until(
      () => socket.events('system').find(({ payload }) => payload.status !== 'starting'),
      'the subscription',
    );
    return notice.payload as { status: string; message: string };
  };
  const tenants = await Promise.all(
    Array.from({ length: MOST_READ + 1 }, (_, n) => harness.project(`${OF_ONE_ACCOUNT}${n}`)),
  );
  const last = tenants.pop() as BackendTenant;
  for (const tenant of tenants) assert.is((await listen(tenant)).status, 'ok');
  const refused = await listen(last);
  assert.is(refused.status, 'error');
  assert.match(refused.message, /this account has reached its limit/);
  assert.is(await slots(), MOST_READ);
  await harness.forget(tenants[0] as BackendTenant);
  const socket = await harness.socket(last);
  await join(socket, 'changes', { postgres_changes: [{ event: '*', schema: 'public', table: 't' }] });
  await until(() => socket.events('system').some(({ payload }) => payload.status === 'ok'), 'the place');
});

test.run();
