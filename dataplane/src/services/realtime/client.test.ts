/** Tests unmodified realtime-js, through its whole public API. */

import { until } from '@slipway/testing';
import type { RealtimeChannel, RealtimeClient } from '@supabase/supabase-js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { BackendTenant } from '../../projects/tenant.js';
import { type RealtimeHarness, startRealtimeHarness } from './testing/harness.js';

interface Context {
  harness: RealtimeHarness;
  tenant: BackendTenant;
}
const test = suite<Context>('realtime-js');

test.before(async (context) => {
  context.harness = await startRealtimeHarness();
  context.tenant = await context.harness.project('walked');
});
test.after(async ({ harness }) => {
  await harness.close();
});

const subscribed = (channel: RealtimeChannel) =>
  new Promise<void>((resolve, reject) => {
    channel.subscribe((status, error) => {
      if (status === 'SUBSCRIBED') resolve();
      else if (status !== 'CLOSED') reject(error ?? new Error(status));
    });
  });
const ready = (channel: RealtimeChannel) => {
  const received = new Promise<void>((resolve, reject) => {
    channel.on('system', {}, ({ extension, status, message }) => {
      if (extension !== 'postgres_changes') return;
      if (status === 'ok') resolve();
      else reject(new Error(message));
    });
  });
  return Promise.all([subscribed(channel), received]);
};

for (const vsn of ['1.0.0', '2.0.0']) {
  test(`a broadcast reaches every other subscriber, on request also its sender, and is acknowledged (${vsn})`, async ({
    harness,
    tenant,
  }) => {
    const clients = [1, 2].map(() => harness.client(tenant, { vsn }));
    const [one, other] = clients.map((client, at) =>
      client.channel('room', { config: { broadcast: { self: at === 0, ack: true } } }),
    ) as [RealtimeChannel, RealtimeChannel];
    const received: [string, unknown][] = [];
    one.on('broadcast', { event: 'hello' }, (message) => received.push(['one', message]));
    other.on('broadcast', { event: '*' }, (message) => received.push(['other', message]));
    await Promise.all([subscribed(one), subscribed(other)]);
    assert.is(await one.send({ type: 'broadcast', event: 'hello', payload: { n: 1 } }), 'ok');
    assert.is(await other.send({ type: 'broadcast', event: 'hello', payload: { n: 2 } }), 'ok');
    await until(() => received.length === 3, 'three messages');
    const message = (n: number) => ({ type: 'broadcast', event: 'hello', payload: { n } });
    assert.equal(
      received.sort(),
      [
        ['one', message(1)],
        ['one', message(2)],
        ['other', message(1)],
      ].sort(),
    );
    for (const client of clients) await client.disconnect();
  });
}

test('a payload of bytes arrives as bytes at clients that support this', async ({ harness, tenant }) => {
  const [one, other] = [harness.client(tenant), harness.client(tenant)].map((client) => client.channel('bytes')) as [
    RealtimeChannel,
    RealtimeChannel,
  ];
  const received: ArrayBuffer[] = [];
  other.on('broadcast', { event: 'b' }, ({ payload }) => received.push(payload));
  await Promise.all([subscribed(one), subscribed(other)]);
  await one.send({ type: 'broadcast', event: 'b', payload: new Uint8Array([1, 2, 255]).buffer });
  assert.equal(await one.httpSend('b', new Uint8Array([7])), { success: true });
  await until(() => received.length === 2, 'both messages');
  assert.equal(
    received.map((bytes) => [...new Uint8Array(bytes)]),
    [[1, 2, 255], [7]],
  );
});

test('clients of both versions receive each other’s messages', async ({ harness, tenant }) => {
  const channels = ['1.0.0', '2.0.0'].map((vsn) => harness.client(tenant, { vsn }).channel('mixed'));
  const received: unknown[] = [];
  for (const channel of channels) channel.on('broadcast', { event: 'x' }, ({ payload }) => received.push(payload));
  await Promise.all(channels.map(subscribed));
  for (const [at, channel] of channels.entries()) {
    await channel.send({ type: 'broadcast', event: 'x', payload: { from: at } });
  }
  await until(() => received.length === 2, 'both messages');
  assert.equal(received, [{ from: 0 }, { from: 1 }]);
});

test('a broadcast by REST reaches subscribers, whether or not its sender is subscribed', async ({
  harness,
  tenant,
}) => {
  const listener = harness.client(tenant).channel('by-rest');
  const received: unknown[] = [];
  listener.on('broadcast', { event: 'x' }, ({ payload }) => received.push(payload));
  await subscribed(listener);
  const sender = harness.client(tenant).channel('by-rest');
  assert.is(await sender.send({ type: 'broadcast', event: 'x', payload: { n: 1 } }), 'ok');
  assert.equal(await sender.httpSend('x', { n: 2 }), { success: true });
  await until(() => received.length === 2, 'both messages');
  assert.equal(received, [{ n: 1 }, { n: 2 }]);
});

test('an incomplete message by REST is rejected with the names of its missing members', async ({ harness, tenant }) => {
  const post = (body: string) =>
    fetch(`${harness.url(tenant)}/api/broadcast`, { method: 'POST', headers: { apikey: tenant.anonKey }, body });
  assert.is((await post('{')).status, 422);
  const answer = await post(JSON.stringify({ messages: [{ topic: 't', event: 'e', payload: {} }, { topic: '' }] }));
  assert.is(answer.status, 422);
  const blank = ["can't be blank"];
  assert.equal(await answer.json(), { errors: { messages: [{}, { topic: blank, event: blank, payload: blank }] } });
});

test('presence reports present, joining, changed and leaving clients', async ({ harness, tenant }) => {
  const clients = [harness.client(tenant), harness.client(tenant)];
  const [al, bo] = clients.map((client, at) =>
    client.channel('lobby', { config: { presence: { key: at === 0 ? 'al' : 'bo' } } }),
  ) as [RealtimeChannel, RealtimeChannel];
  const seen: string[] = [];
  let syncs = 0;
  al.on('presence', { event: 'sync' }, () => syncs++);
  al.on('presence', { event: 'join' }, ({ key, newPresences }) => seen.push(`+${key} ${newPresences[0]?.mood}`));
  al.on('presence', { event: 'leave' }, ({ key }) => seen.push(`-${key}`));
  bo.on('presence', { event: 'sync' }, () => undefined);
  await subscribed(al);
  assert.is(await al.track({ mood: 'calm' }), 'ok');
  await until(() => al.presenceState().al, 'al to see itself');
  await subscribed(bo);
  await until(() => bo.presenceState().al, 'bo to see al');
  assert.is(await bo.track({ mood: 'glad' }), 'ok');
  await until(() => al.presenceState().bo, 'al to see bo');
  assert.is(await bo.track({ mood: 'sad' }), 'ok');
  await until(
    () => (al.presenceState().bo?.[0] as unknown as { mood: string } | undefined)?.mood === 'sad',
    'the change',
  );
  assert.is(await bo.untrack(), 'ok');
  await until(() => al.presenceState().bo === undefined, 'bo to go');
  assert.is(await bo.track({ mood: 'back' }), 'ok');
  await until(() => al.presenceState().bo, 'bo to be back');
  await clients[1]?.disconnect();
  await until(() => al.presenceState().bo === undefined, 'bo to be gone with its socket');
  assert.ok(syncs >= 5);
  assert.ok(seen.includes('+al calm') && seen.includes('+bo glad') && seen.includes('-bo'));
});

test('inserts, updates and deletes are sent with upstream’s payload, and selected by filters', async ({
  harness,
  tenant,
}) => {
  await harness.sql(
    tenant,
    `create table todos (id bigint generated by default as identity primary key, title text, done bool default false,
       at timestamptz default '2026-01-02 03:04:05.678+00', tags text[] default '{a,"b c"}',
       meta jsonb default '{"x":[1]}', n numeric);
     alter publication supabase_realtime add table todos`,
  );
  const channel = harness.client(tenant).channel('db');
  const all: Record<string, unknown>[] = [];
  const some: unknown[] = [];
  channel.on('postgres_changes', { event: '*', schema: 'public', table: 'todos' }, (change) =>
    all.push(change as never),
  );
  channel.on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'todos', filter: 'id=gt.1' }, (change) =>
    some.push(change.new.id),
  );
  await ready(channel);
  await harness.sql(tenant, `insert into todos (id, title, n) values (1, 'one', 1.50), (2, 'zwei €', null)`);
  await harness.sql(tenant, `update todos set done = true where id = 1`);
  await harness.sql(tenant, 'delete from todos where id = 2');
  await until(() => all.length === 4, 'four changes');
  const { commit_timestamp, ...insert } = all[0] as Record<string, unknown>;
  assert.ok(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(String(commit_timestamp)));
  assert.equal(insert, {
    schema: 'public',
    table: 'todos',
    eventType: 'INSERT',
    new: {
      id: 1,
      title: 'one',
      done: false,
      at: '2026-01-02T03:04:05.678+00:00',
      tags: ['a', 'b c'],
      meta: { x: [1] },
      n: 1.5,
    },
    old: {},
    errors: null,
  });
  assert.equal((all[1]?.new as { title: string } | undefined)?.title, 'zwei €');
  assert.equal(all[2]?.old, { id: 1 });
  assert.is((all[2]?.new as { done: boolean } | undefined)?.done, true);
  assert.is(all[3]?.eventType, 'DELETE');
  assert.equal(all[3]?.old, { id: 2 });
  assert.equal(all[3]?.new, {});
  assert.equal(some, [2]);
});

test('a table with full replica identity sends old rows of updates, and of deletes without row-level security', async ({
  harness,
  tenant,
}) => {
  await harness.sql(
    tenant,
    `create table whole (id int primary key, a text); alter table whole replica identity full;
     alter publication supabase_realtime add table whole`,
  );
  const channel = harness.client(tenant).channel('whole');
  const old: unknown[] = [];
  channel.on('postgres_changes', { event: '*', schema: 'public', table: 'whole' }, (change) => old.push(change.old));
  await ready(channel);
  await harness.sql(tenant, `insert into whole values (1, 'x'); update whole set a = 'y'; delete from whole`);
  await until(() => old.length === 3, 'three changes');
  assert.equal(old, [{}, { id: 1, a: 'x' }, { id: 1, a: 'y' }]);
});

test('a subscription with select gets only the selected columns and the key', async ({ harness, tenant }) => {
  await harness.sql(
    tenant,
    `create table wide (id int primary key, a text, b text); alter publication supabase_realtime add table wide`,
  );
  const channel = harness.client(tenant).channel('wide');
  const rows: unknown[] = [];
  channel.on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'wide', select: ['a'] }, (change) =>
    rows.push(change.new),
  );
  await ready(channel);
  await harness.sql(tenant, `insert into wide values (1, 'a', 'b')`);
  await until(() => rows.length === 1, 'the row');
  assert.equal(rows, [{ id: 1, a: 'a' }]);
});

const FILTERS: [string, number[]][] = [
  ['n=eq.2', [2]],
  ['n=neq.2', [1, 3]],
  ['n=lt.2', [1]],
  ['n=lte.2', [1, 2]],
  ['n=gt.2', [3]],
  ['n=gte.2.0', [2, 3]],
  ['id=in.(1,3)', [1, 3]],
  ['t=eq."a,b"', [1]],
  ['t=in.("a,b",c)', [1, 2]],
  ['t=like.%b', [1]],
  ['t=ilike.C', [2]],
  ['t=match.^[ac]', [1, 2]],
  ['t=is.null', [3]],
  ['t=not.is.null', [1, 2]],
  ['t=isdistinct.c', [1, 3]],
  ['id=not.in.(1,2)', [3]],
  ['id=gt.1,n=lt.3', [2]],
  ['d=gt.2026-01-01', [2, 3]],
];
test('every filter operator selects the same rows as in Postgres', async ({ harness, tenant }) => {
  await harness.sql(
    tenant,
    'create table filtered (id int primary key, n numeric, t text, d date); ' +
      'alter publication supabase_realtime add table filtered',
  );
  const channel = harness.client(tenant).channel('filters');
  const chosen = new Map<string, number[]>(FILTERS.map(([filter]) => [filter, []]));
  let all = 0;
  for (const [filter] of FILTERS) {
    channel.on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'filtered', filter }, (change) =>
      chosen.get(filter)?.push(change.new.id),
    );
  }
  channel.on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'filtered' }, () => all++);
  await ready(channel);
  await harness.sql(
    tenant,
    `insert into filtered values (1, 1, 'a,b', '2026-01-01'), (2, 2, 'c', '2026-01-02'), (3, 3, null, '2026-02-01')`,
  );
  await until(() => all === 3, 'three rows');
  assert.equal([...chosen], FILTERS);
});

test('a subscription that is not possible gets a system message that identifies it', async ({ harness, tenant }) => {
  const cases: [object, RegExp][] = [
    [{ table: 'nowhere' }, /table: nowhere.*publication/],
    [{ table: 'todos', filter: 'nope=eq.1' }, /invalid column for filter nope/],
    [{ table: 'todos', filter: 'id=eq.x' }, /invalid input syntax for type bigint/],
    [{ table: 'todos', filter: 'id=beside.1' }, /not like column=eq.value/],
  ];
  for (const [spec, expected] of cases) {
    const channel = harness.client(tenant).channel('wrong');
    channel.on('postgres_changes', { event: 'INSERT', schema: 'public', ...spec } as never, () => undefined);
    const failure = await ready(channel).catch((error: Error) => error.message);
    assert.match(String(failure), expected);
  }
});

test('each realtime.send() and broadcast_changes() reaches its topic once, public or private', async ({
  harness,
  tenant,
}) => {
  await harness.sql(
    tenant,
    `create policy everyone on realtime.messages for select to authenticated using (realtime.topic() like 'notes:%');
     create table notes (id int primary key, body text);
     create function tell() returns trigger language plpgsql security definer as $$ begin
       perform realtime.broadcast_changes('notes:' || coalesce(new.id, old.id), tg_op, tg_op,
         tg_table_name, tg_table_schema, new, old);
       return null; end $$;
     create trigger tell after insert or update or delete on notes for each row execute function tell()`,
  );
  const token = await harness.token(tenant, { role: 'authenticated', sub: crypto.randomUUID() });
  const client = harness.client(tenant, { token });
  const [open, closed] = [
    client.channel('notes:1'),
    harness.client(tenant, { token }).channel('notes:1', { config: { private: true } }),
  ];
  const received: [string, string, Record<string, unknown>][] = [];
  open.on('broadcast', { event: '*' }, ({ event, payload }) => received.push(['public', event, payload]));
  closed.on('broadcast', { event: '*' }, ({ event, payload }) => received.push(['private', event, payload]));
  await Promise.all([subscribed(open), subscribed(closed)]);
  await harness.sql(tenant, `select realtime.send('{"id":"mine","n":1}', 'ping', 'notes:1', false)`);
  await until(() => received.length === 1, 'the message');
  assert.equal(received.pop(), ['public', 'ping', { id: 'mine', n: 1 }]);
  await harness.sql(tenant, `insert into notes values (1, 'x'); update notes set body = 'y'; delete from notes`);
  await until(() => received.length === 3, 'three changes');
  assert.equal(
    received.map(([where, event, { record, old_record, operation, table, schema }]) => {
      return [where, event, record, old_record, operation, table, schema];
    }),
    [
      ['private', 'INSERT', { id: 1, body: 'x' }, null, 'INSERT', 'notes', 'public'],
      ['private', 'UPDATE', { id: 1, body: 'y' }, { id: 1, body: 'x' }, 'UPDATE', 'notes', 'public'],
      ['private', 'DELETE', null, { id: 1, body: 'y' }, 'DELETE', 'notes', 'public'],
    ],
  );
});

test('a private channel replays the last messages of its topic on request', async ({ harness, tenant }) => {
  const token = await harness.token(tenant, { role: 'authenticated', sub: crypto.randomUUID() });
  const since = Date.now() - 1000;
  const witness = harness.client(tenant, { token }).channel('notes:r', { config: { private: true } });
  let witnessed = 0;
  witness.on('broadcast', { event: 'past' }, () => witnessed++);
  await subscribed(witness);
  await harness.sql(
    tenant,
    `select realtime.send(jsonb_build_object('n', n), 'past', 'notes:r', true) from generate_series(1, 3) n`,
  );
  // Pending changes of presence would also be sent to a client that joins now.
  await until(() => witnessed === 3, 'the present');
  const channel = harness
    .client(tenant, { token })
    .channel('notes:r', { config: { private: true, broadcast: { replay: { since, limit: 2 } } } });
  const received: unknown[] = [];
  channel.on('broadcast', { event: 'past' }, ({ payload, meta }) => received.push([payload.n, meta?.replayed]));
  await subscribed(channel);
  await until(() => received.length === 2, 'the past');
  assert.equal(received, [
    [2, true],
    [3, true],
  ]);
});

test('a client leaves, removes channels, and joins again', async ({ harness, tenant }) => {
  const client: RealtimeClient = harness.client(tenant, { heartbeatIntervalMs: 1_000 });
  const beats: string[] = [];
  client.onHeartbeat((status) => beats.push(status));
  const channel = client.channel('coming');
  await subscribed(channel);
  assert.is(client.getChannels().length, 1);
  await until(() => beats.includes('ok'), 'an answered heartbeat');
  assert.is(await channel.unsubscribe(), 'ok');
  await until(() => client.getChannels().length === 0, 'the channel to be removed');
  const again = client.channel('coming');
  await subscribed(again);
  assert.is(await client.removeChannel(again), 'ok');
  await subscribed(client.channel('another'));
  assert.equal(await client.removeAllChannels(), ['ok']);
  assert.ok(!client.isConnected() || client.connectionState() === 'open');
});

test('a channel that requests it is notified once it receives messages of the database', async ({
  harness,
  tenant,
}) => {
  const channel = harness.client(tenant).channel('notice', { config: { broadcast: { replication_ready: true } } });
  const messages: string[] = [];
  channel.on('system', {}, ({ status, message }) => messages.push(`${status}: ${message}`));
  await subscribed(channel);
  await until(() => messages.length === 1, 'the message');
  assert.equal(messages, ['ok: Replication connection established']);
});

test.run();
