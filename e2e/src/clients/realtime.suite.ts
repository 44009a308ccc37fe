/** Calls the whole public API of an unmodified realtime-js at a project's URL. */
import { until } from '@slipway/testing';
import {
  postgresChangesFilter,
  type RealtimeChannel,
  RealtimeClient,
  type RealtimePostgresFilterBuilder,
  type WebSocketLikeConstructor,
} from '@supabase/realtime-js';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Inventory, Recorder } from './recorder.js';
import type { WalkedProject } from './walked-project.js';

/** Properties of the client with a function type that are options, not methods. */
type Given = 'fetch' | 'encode' | 'decode' | 'heartbeatCallback' | 'reconnectAfterMs' | 'transport';

const CLIENT: Inventory<Omit<RealtimeClient, Given>> = {
  connect: 'works',
  disconnect: 'works',
  endpointURL: 'works',
  connectionState: 'works',
  isConnected: 'works',
  isConnecting: 'works',
  isDisconnecting: 'works',
  channel: 'works',
  getChannels: 'works',
  removeChannel: 'works',
  removeAllChannels: 'works',
  push: 'works',
  setAuth: 'works',
  sendHeartbeat: 'works',
  onHeartbeat: 'works',
  log: 'works',
};
const CHANNEL: Inventory<RealtimeChannel> = {
  subscribe: 'works',
  unsubscribe: 'works',
  teardown: 'works',
  on: 'works',
  send: 'works',
  httpSend: 'works',
  track: 'works',
  untrack: 'works',
  presenceState: 'works',
  updateJoinPayload: 'works',
  copyBindings: 'works',
};
const FILTER: Inventory<RealtimePostgresFilterBuilder> = {
  eq: 'works',
  neq: 'works',
  gt: 'works',
  gte: 'works',
  lt: 'works',
  lte: 'works',
  in: 'works',
  like: 'works',
  ilike: 'works',
  match: 'works',
  imatch: 'works',
  is: 'works',
  isDistinct: 'works',
  not: 'works',
  build: 'works',
  toString: 'works',
};

const SQL = `
  create table received (id int primary key, n numeric, t text);
  alter publication supabase_realtime add table received;
  create policy "members receive and send" on realtime.messages to authenticated using (true) with check (true);
`;

const FILTERS: [
  name: string,
  filter: (by: RealtimePostgresFilterBuilder) => RealtimePostgresFilterBuilder,
  ids: number[],
][] = [
  ['eq', (by) => by.eq('n', 2), [2]],
  ['neq', (by) => by.neq('n', 2), [1, 3]],
  ['gt', (by) => by.gt('n', 2), [3]],
  ['gte', (by) => by.gte('n', 2), [2, 3]],
  ['lt', (by) => by.lt('n', 2), [1]],
  ['lte', (by) => by.lte('n', 2), [1, 2]],
  ['in', (by) => by.in('id', [1, 3]), [1, 3]],
  ['like', (by) => by.like('t', '%b'), [1]],
  ['ilike', (by) => by.ilike('t', 'C'), [2]],
  ['match', (by) => by.match('t', '^[ac]'), [1, 2]],
  ['imatch', (by) => by.imatch('t', '^[C]'), [2]],
  ['is', (by) => by.is('t', null), [3]],
  ['isDistinct', (by) => by.isDistinct('t', 'c'), [1, 3]],
  ['not', (by) => by.not('id', 'in', [1, 2]), [3]],
];

const subscribed = (channel: RealtimeChannel) =>
  new Promise<void>((resolve, reject) => {
    channel.subscribe((status, error) => {
      if (status === 'SUBSCRIBED') resolve();
      else if (status !== 'CLOSED') reject(error ?? new Error(status));
    });
  });

export function walkRealtime(test: Test, given: () => WalkedProject): void {
  const recorder = new Recorder({
    RealtimeClient: CLIENT,
    RealtimeChannel: CHANNEL,
    RealtimePostgresFilterBuilder: FILTER,
  });
  const clients: RealtimeClient[] = [];
  function newClient(logged?: string[]): RealtimeClient {
    const { project, platform } = given();
    const client = new RealtimeClient(`${project.project_url.replace(/^http/, 'ws')}/realtime/v1`, {
      params: { apikey: project.anon_key },
      transport: platform.network.WebSocket as WebSocketLikeConstructor,
      fetch: platform.network.fetch,
      ...(logged ? { logger: (kind: string, message: string) => void logged.push(`${kind} ${message}`) } : {}),
    });
    clients.push(client);
    return recorder.watch(client);
  }
  const end = async () => {
    for (const client of clients.splice(0)) await client.disconnect();
  };

  test('realtime-js: a client connects, reports its state, stays connected by heartbeats and disconnects', async () => {
    const logged: string[] = [];
    const client = newClient(logged);
    assert.match(client.endpointURL(), /^wss?:.*\/realtime\/v1\/websocket\?/);
    client.connect();
    assert.equal([client.isConnecting(), client.isConnected()], [true, false]);
    await until(() => client.isConnected(), 'a connection');
    assert.is(client.connectionState(), 'open');
    const beats: string[] = [];
    client.onHeartbeat((status) => void beats.push(status));
    await client.sendHeartbeat();
    await until(() => beats.includes('ok'), 'an answered heartbeat');
    client.log('walk', 'noted');
    assert.ok(logged.includes('walk noted'));
    const parting = client.disconnect();
    assert.type(client.isDisconnecting(), 'boolean');
    await parting;
    assert.is(client.isConnected(), false);
    await end();
  });

  test('realtime-js: broadcasts reach subscribers by socket and by HTTP, and channels can be removed', async () => {
    const [sender, listener] = [newClient(), newClient()];
    const room = sender.channel('room', { config: { broadcast: { ack: true, self: true } } });
    const received: unknown[] = [];
    const model = listener.channel('model');
    model.on('broadcast', { event: '*' }, ({ event, payload }) => received.push([event, payload]));
    const other = listener.channel('room');
    other.copyBindings(model);
    await Promise.all([subscribed(room), subscribed(other)]);
    assert.is(await room.send({ type: 'broadcast', event: 'sent', payload: { n: 1 } }), 'ok');
    assert.equal(await room.httpSend('posted', { n: 2 }), { success: true });
    const payload = { type: 'broadcast', event: 'pushed', payload: { n: 3 } };
    sender.push({ topic: 'realtime:room', event: 'broadcast', payload, ref: 'pushed', join_ref: '' });
    await until(() => received.length === 3, 'three messages');
    assert.equal(received.map((each) => JSON.stringify(each)).sort(), [
      '["posted",{"n":2}]',
      '["pushed",{"n":3}]',
      '["sent",{"n":1}]',
    ]);
    assert.is(await other.unsubscribe(), 'ok');
    assert.is(await sender.removeChannel(room), 'ok');
    assert.is(sender.getChannels().length, 0);
    model.teardown();
    await subscribed(sender.channel('another'));
    assert.equal(await sender.removeAllChannels(), ['ok']);
    await end();
  });

  test('realtime-js: presence shows the members, and a token with rights opens a private channel', async () => {
    const { person, project } = given();
    await person.query(project.id, SQL);
    const [al, bo] = [newClient(), newClient()].map((client, at) =>
      client.channel('lobby', { config: { presence: { key: at === 0 ? 'al' : 'bo' } } }),
    ) as [RealtimeChannel, RealtimeChannel];
    for (const channel of [al, bo]) channel.on('presence', { event: 'sync' }, () => undefined);
    await Promise.all([subscribed(al), subscribed(bo)]);
    assert.is(await bo.track({ mood: 'glad' }), 'ok');
    await until(() => al.presenceState().bo?.length, 'al sees bo');
    assert.is(await bo.untrack(), 'ok');
    await until(() => al.presenceState().bo === undefined, 'al sees bo leave');

    const closed = { config: { private: true } };
    const refused = await subscribed(newClient().channel('members', closed)).catch((error: Error) => error.message);
    assert.match(String(refused), /Unauthorized/);
    const member = newClient();
    const token = await given().userToken();
    await member.setAuth(token);
    const channel = member.channel('members', closed);
    channel.updateJoinPayload({ access_token: token });
    await subscribed(channel);
    await end();
  });

  test('realtime-js: every filter selects the same changes of the database as in Postgres', async () => {
    const { person, project } = given();
    const channel = newClient().channel('filters');
    const chosen = new Map<string, number[]>(FILTERS.map(([name]) => [name, []]));
    let all = 0;
    const at = { event: 'INSERT', schema: 'public', table: 'received' } as const;
    for (const [name, filter] of FILTERS) {
      const by = filter(recorder.watch(postgresChangesFilter()));
      assert.is(by.build(), by.toString());
      channel.on('postgres_changes', { ...at, filter: by.build() }, (change) => chosen.get(name)?.push(change.new.id));
    }
    channel.on('postgres_changes', at, () => all++);
    const ready = new Promise<void>((resolve, reject) => {
      channel.on('system', {}, ({ extension, status, message }) => {
        if (extension !== 'postgres_changes') return;
        if (status === 'ok') resolve();
        else reject(new Error(message));
      });
    });
    await Promise.all([subscribed(channel), ready]);
    await person.query(project.id, `insert into received values (1, 1, 'a,b'), (2, 2, 'c'), (3, 3, null)`);
    await until(() => all === 3, 'three rows');
    assert.equal(
      [...chosen],
      FILTERS.map(([name, , ids]) => [name, ids]),
    );
    await end();
  });

  test('realtime-js: every public method was called above', () => {
    assert.equal(recorder.uncalled(), []);
  });
}
