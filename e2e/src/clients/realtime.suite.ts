/** realtime-js, as it comes, through its whole public API at a project's URL. */
import {
  postgresChangesFilter,
  type RealtimeChannel,
  RealtimeClient,
  type RealtimePostgresFilterBuilder,
  type WebSocketLikeConstructor,
} from '@supabase/realtime-js';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { until } from '../until.js';
import { type Inventory, Recorder } from './recorder.js';
import type { WalkedProject } from './walked-project.js';

/** Properties of a client with a function's type that are no methods: its options, or its own. */
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
  create table heard (id int primary key, n numeric, t text);
  alter publication supabase_realtime add table heard;
  create policy "members hear and say" on realtime.messages to authenticated using (true) with check (true);
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

  test('realtime-js: a client connects, says in which state it is, is kept alive and parts', async () => {
    const logged: string[] = [];
    const client = newClient(logged);
    assert.match(client.endpointURL(), /^wss?:.*\/realtime\/v1\/websocket\?/);
    client.connect();
    assert.equal([client.isConnecting(), client.isConnected()], [true, false]);
    await until('a connection', async () => client.isConnected() || undefined);
    assert.is(client.connectionState(), 'open');
    const beats: string[] = [];
    client.onHeartbeat((status) => void beats.push(status));
    await client.sendHeartbeat();
    await until('an answered heartbeat', async () => beats.includes('ok') || undefined);
    client.log('walk', 'noted');
    assert.ok(logged.includes('walk noted'));
    const parting = client.disconnect();
    assert.type(client.isDisconnecting(), 'boolean');
    await parting;
    assert.is(client.isConnected(), false);
    await end();
  });

  test('realtime-js: broadcasts reach who listens, by socket and by HTTP, and channels come and go', async () => {
    const [sender, listener] = [newClient(), newClient()];
    const room = sender.channel('room', { config: { broadcast: { ack: true, self: true } } });
    const heard: unknown[] = [];
    const model = listener.channel('model');
    model.on('broadcast', { event: '*' }, ({ event, payload }) => heard.push([event, payload]));
    const other = listener.channel('room');
    other.copyBindings(model);
    await Promise.all([subscribed(room), subscribed(other)]);
    assert.is(await room.send({ type: 'broadcast', event: 'sent', payload: { n: 1 } }), 'ok');
    assert.equal(await room.httpSend('posted', { n: 2 }), { success: true });
    const payload = { type: 'broadcast', event: 'pushed', payload: { n: 3 } };
    sender.push({ topic: 'realtime:room', event: 'broadcast', payload, ref: 'pushed', join_ref: '' });
    await until('three messages', async () => heard.length === 3 || undefined);
    assert.equal(heard.map((each) => JSON.stringify(each)).sort(), [
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

  test('realtime-js: presence tells who is there, and a token with rights opens a private channel', async () => {
    const { person, project } = given();
    await person.query(project.id, SQL);
    const [al, bo] = [newClient(), newClient()].map((client, at) =>
      client.channel('lobby', { config: { presence: { key: at === 0 ? 'al' : 'bo' } } }),
    ) as [RealtimeChannel, RealtimeChannel];
    for (const channel of [al, bo]) channel.on('presence', { event: 'sync' }, () => undefined);
    await Promise.all([subscribed(al), subscribed(bo)]);
    assert.is(await bo.track({ mood: 'glad' }), 'ok');
    await until('al sees bo', async () => al.presenceState().bo?.length);
    assert.is(await bo.untrack(), 'ok');
    await until('al sees bo go', async () => al.presenceState().bo === undefined || undefined);

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

  test('realtime-js: every filter chooses among changes of the database what it chooses in Postgres', async () => {
    const { person, project } = given();
    const channel = newClient().channel('filters');
    const chosen = new Map<string, number[]>(FILTERS.map(([name]) => [name, []]));
    let all = 0;
    const at = { event: 'INSERT', schema: 'public', table: 'heard' } as const;
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
    await person.query(project.id, `insert into heard values (1, 1, 'a,b'), (2, 2, 'c'), (3, 3, null)`);
    await until('three rows', async () => all === 3 || undefined);
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
