/**
 * Tests attacks by clients of realtime. Each attack is rejected with upstream's message, and no client receives
 * messages of others.
 */

import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { BackendTenant } from '../../projects/tenant.js';
import { signToken } from '../../testing/project.js';
import { type RawSocket, type RealtimeHarness, startRealtimeHarness } from './testing/harness.js';

interface Context {
  harness: RealtimeHarness;
  tenant: BackendTenant;
  neighbour: BackendTenant;
}
const test = suite<Context>('attacks on realtime');
const AL = '11111111-1111-1111-1111-111111111111';
const BO = '22222222-2222-2222-2222-222222222222';

test.before(async (context) => {
  const harness = await startRealtimeHarness();
  context.harness = harness;
  context.tenant = await harness.project('attacked');
  context.neighbour = await harness.project('neighbour');
  for (const tenant of [context.tenant, context.neighbour]) {
    await harness.sql(
      tenant,
      `create table own (id int primary key, user_id uuid, body text); alter table own enable row level security;
       alter table own replica identity full;
       create policy own on own to authenticated using (user_id = auth.uid());
       create table closed (id int primary key); revoke all on closed from anon, authenticated;
       create table marks (id int primary key);
       create table unpublished (id int primary key);
       alter publication supabase_realtime add table own, closed, marks;
       create policy members on realtime.messages for select to authenticated
         using (realtime.topic() = 'of:' || auth.uid());
       create policy talk on realtime.messages for insert to authenticated
         with check (realtime.topic() = 'of:' || auth.uid() and extension = 'broadcast')`,
    );
  }
});
test.after(async ({ harness }) => {
  await harness.close();
});

const user = (harness: RealtimeHarness, tenant: BackendTenant, sub: string, claims: object = {}) =>
  harness.token(tenant, { role: 'authenticated', sub, ...claims });

const spec = (table: string, extra: object = {}) => ({ event: '*', schema: 'public', table, ...extra });

/** Joins and waits until the subscription to changes is confirmed. */
async function listening(socket: RawSocket, topic: string, token: string, ...subscriptions: object[]): Promise<void> {
  const answer = await socket.ask(`realtime:${topic}`, 'phx_join', {
    access_token: token,
    config: { postgres_changes: subscriptions },
  });
  assert.is(answer.status, 'ok', JSON.stringify(answer));
  const isSubscribed = () => socket.events('system').some(({ payload }) => payload.channel === topic);
  await until(isSubscribed, 'how subscribing went');
}

const changes = (socket: RawSocket) =>
  socket.events('postgres_changes').map(({ payload }) => payload.data as Record<string, unknown>);
const ofTable = (socket: RawSocket, table: string) => changes(socket).filter((change) => change.table === table);

/**
 * Number of marks. A mark is a visible change that a test writes after the tested changes: once the mark has arrived, a
 * tested change that is missing will not arrive.
 */
let marks = 0;
async function mark(harness: RealtimeHarness, tenant: BackendTenant, ...sockets: RawSocket[]): Promise<void> {
  const id = ++marks;
  await harness.sql(tenant, `insert into marks values (${id})`);
  const seen = (socket: RawSocket) =>
    ofTable(socket, 'marks').some(({ record }) => (record as { id: number } | undefined)?.id === id);
  await until(() => sockets.every(seen), 'the mark');
}

test('a row is sent only to subscribers that may read it, even if all subscribers listen', async ({
  harness,
  tenant,
}) => {
  const [al, bo, anon] = [await harness.socket(tenant), await harness.socket(tenant), await harness.socket(tenant)];
  await listening(al, 'a', await user(harness, tenant, AL), spec('own'), spec('marks'));
  await listening(bo, 'b', await user(harness, tenant, BO), spec('own'), spec('marks'));
  await listening(anon, 'c', tenant.anonKey, spec('own'), spec('marks'));
  await harness.sql(tenant, `insert into own values (1, '${AL}', 'of al'); update own set body = 'still of al'`);
  await mark(harness, tenant, al, bo, anon);
  assert.equal(
    ofTable(al, 'own').map(({ record }) => (record as { body: string }).body),
    ['of al', 'still of al'],
  );
  assert.equal(ofTable(bo, 'own'), []);
  assert.equal(ofTable(anon, 'own'), []);
});

test('each of many small commits is sent to its readers, although the log is ahead of the snapshots', async ({
  harness,
  tenant,
}) => {
  const al = await harness.socket(tenant);
  await listening(al, 'many', await user(harness, tenant, AL), spec('own'), spec('marks'));
  const writers = Array.from({ length: 4 }, (_, writer) =>
    harness.sql(
      tenant,
      `do $$ begin for n in 1..300 loop insert into own values (1000 * ${writer + 1} + n, '${AL}', 'x'); commit; ` +
        'end loop; end $$',
    ),
  );
  await Promise.all(writers);
  await mark(harness, tenant, al);
  assert.is(ofTable(al, 'own').length, 1200);
});

test('the old row of a delete under row-level security has only the key, and matches no other filter', async ({
  harness,
  tenant,
}) => {
  const bo = await harness.socket(tenant);
  const guess = spec('own', { filter: 'body=eq.secret' });
  await listening(bo, 'del', await user(harness, tenant, BO), spec('own'), spec('marks'), guess);
  await harness.sql(tenant, `insert into own values (9, '${AL}', 'secret'); delete from own where id = 9`);
  await mark(harness, tenant, bo);
  const deletes = ofTable(bo, 'own');
  assert.equal(
    deletes.map(({ type, old_record }) => [type, old_record]),
    [['DELETE', { id: 9 }]],
  );
  const ids = bo.events('postgres_changes').flatMap(({ payload }) => {
    return (payload.data as { type: string }).type === 'DELETE' ? [payload.ids as number[]] : [];
  });
  assert.is(ids[0]?.length, 1);
  assert.not.match(JSON.stringify(bo.received.slice(2)), /secret"[^}]*old/);
});

test('a change of a table that the role may not read is sent as unauthorized, without a value', async ({
  harness,
  tenant,
}) => {
  const anon = await harness.socket(tenant);
  await listening(anon, 'closed', tenant.anonKey, spec('closed'), spec('marks'));
  await harness.sql(tenant, 'insert into closed values (77)');
  await mark(harness, tenant, anon);
  const [notice] = ofTable(anon, 'closed');
  assert.equal(notice?.errors, ['Error 401: Unauthorized']);
  assert.not.match(JSON.stringify(notice), /77|record/);
});

test('a policy that fails for one caller is reported only to that caller, without the row', async ({
  harness,
  tenant,
}) => {
  await harness.sql(
    tenant,
    `create table picky (id int primary key, body text); alter table picky enable row level security;
     create policy picky on picky to authenticated using ((auth.jwt() ->> 'n')::int = 1);
     alter publication supabase_realtime add table picky`,
  );
  const [al, bo] = [await harness.socket(tenant), await harness.socket(tenant)];
  await listening(al, 'p', await user(harness, tenant, AL, { n: '1' }), spec('picky'), spec('marks'));
  await listening(bo, 'p', await user(harness, tenant, BO, { n: 'x' }), spec('picky'), spec('marks'));
  await harness.sql(tenant, `insert into picky values (5, 'hidden')`);
  await mark(harness, tenant, al, bo);
  assert.equal(ofTable(al, 'picky')[0]?.record, { id: 5, body: 'hidden' });
  assert.equal(ofTable(bo, 'picky'), [
    {
      schema: 'public',
      table: 'picky',
      type: 'INSERT',
      errors: ['Error 500: Internal Server Error, RLS policy evaluation failed'],
    },
  ]);
});

test('a table without a key is reported as an error, and an oversized record has only its small values', async ({
  harness,
  tenant,
}) => {
  await harness.sql(
    tenant,
    `create table keyless (body text); create table large (id int primary key, body text);
     alter publication supabase_realtime add table keyless, large`,
  );
  const socket = await harness.socket(tenant);
  await listening(socket, 'l', tenant.anonKey, spec('keyless'), spec('large'), spec('marks'));
  await harness.sql(tenant, `insert into keyless values ('x'); insert into large values (1, repeat('x', 2000000))`);
  await mark(harness, tenant, socket);
  assert.equal(ofTable(socket, 'keyless')[0]?.errors, ['Error 400: Bad Request, no primary key']);
  const [large] = ofTable(socket, 'large');
  assert.equal([large?.record, large?.errors], [{ id: 1 }, ['Error 413: Payload Too Large']]);
});

test('another project receives no changes and no messages of a topic, with any key', async ({
  harness,
  tenant,
  neighbour,
}) => {
  const mine = await harness.socket(tenant);
  await listening(mine, 'shared-name', tenant.serviceRoleKey, spec('*', { schema: '*' }));
  const theirs = await harness.socket(neighbour);
  await listening(theirs, 'shared-name', neighbour.serviceRoleKey, spec('marks'), spec('own'));
  await harness.sql(neighbour, `insert into own values (1, '${AL}', 'of the neighbour')`);
  theirs.push('realtime:shared-name', 'broadcast', { type: 'broadcast', event: 'e', payload: { of: 'the neighbour' } });
  await mark(harness, neighbour, theirs);
  await mark(harness, tenant, mine);
  assert.not.match(JSON.stringify(mine.received), /of the neighbour|the neighbour/);
  const foreign = await harness.socket(tenant, neighbour.anonKey).catch((error: Error) => error.message);
  assert.match(String(foreign), /401/);
  const answer = await mine.ask('realtime:x', 'phx_join', {
    access_token: await user(harness, neighbour, AL),
    config: {},
  });
  assert.equal(answer, {
    status: 'error',
    response: { reason: 'JwtSignatureError: Failed to validate JWT signature' },
  });
});

test('tokens that are forged, expired, unsigned or of a foreign role are rejected at a join', async ({
  harness,
  tenant,
}) => {
  const socket = await harness.socket(tenant);
  const past = Math.floor(Date.now() / 1000) - 100;
  const base64url = (text: string) => Buffer.from(text).toString('base64url');
  const unsigned = `${base64url('{"alg":"none"}')}.${base64url('{"role":"service_role","exp":9999999999}')}.`;
  const cases: [string, RegExp][] = [
    ['no token', /^MalformedJWT: The token provided is not a valid JWT$/],
    [unsigned, /^(JwtSignatureError|MalformedJWT)/],
    [await signToken({ role: 'service_role' }, 'x'.repeat(32)), /^JwtSignatureError/],
    [await user(harness, tenant, AL, { exp: past }), /^InvalidJWTToken: Token has expired/],
    [await user(harness, tenant, AL, { exp: undefined }), /^InvalidJWTToken: Fields `role` and `exp` are required/],
    [await user(harness, tenant, AL, { role: 'postgres' }), /^Unauthorized/],
    [await user(harness, tenant, AL, { role: undefined }), /^InvalidJWTToken|^Unauthorized/],
  ];
  for (const [token, reason] of cases) {
    const answer = await socket.ask('realtime:t', 'phx_join', { access_token: token, config: {} });
    assert.is(answer.status, 'error', token);
    assert.match(String(answer.response.reason), reason);
  }
});

test('a socket without a key, with a wrong key, on another path or in another version is rejected', async ({
  harness,
  tenant,
}) => {
  const refused = (key: string, version?: string) =>
    harness.socket(tenant, key, version as never).catch((error: Error) => error.message);
  assert.match(String(await refused('')), /401/);
  assert.match(String(await refused('wrong')), /401/);
  assert.match(String(await refused(tenant.anonKey, '9.9.9')), /400/);
});

test('a private channel rejects a caller without a policy, and is not the public channel of its name', async ({
  harness,
  tenant,
}) => {
  const [al, bo] = [await harness.socket(tenant), await harness.socket(tenant)];
  const [alToken, boToken] = [await user(harness, tenant, AL), await user(harness, tenant, BO)];
  const config = { private: true };
  const topic = `realtime:of:${AL}`;
  assert.is((await al.ask(topic, 'phx_join', { access_token: alToken, config })).status, 'ok');
  for (const access_token of [boToken, tenant.anonKey]) {
    assert.equal(await bo.ask(topic, 'phx_join', { access_token, config }), {
      status: 'error',
      response: { reason: `Unauthorized: You do not have permissions to read from this Channel topic: of:${AL}` },
    });
  }
  assert.is((await bo.ask(topic, 'phx_join', { access_token: boToken, config: {} })).status, 'ok');
  bo.push(topic, 'broadcast', { type: 'broadcast', event: 'in', payload: {} });
  al.push(topic, 'broadcast', { type: 'broadcast', event: 'out', payload: {} });
  // A channel handles its messages in order: this one is answered once the one before it is sent.
  await al.ask(topic, 'presence', { event: 'untrack' });
  const listener = await harness.socket(tenant);
  assert.is((await listener.ask(topic, 'phx_join', { access_token: alToken, config })).status, 'ok');
  al.push(topic, 'broadcast', { type: 'broadcast', event: 'again', payload: {} });
  await until(() => listener.events('broadcast').length === 1, 'the message to the private channel');
  assert.equal(bo.events('broadcast'), []);
  assert.equal(al.events('broadcast'), []);
});

test('a client that may only read a private topic can send nothing by socket, REST or presence', async ({
  harness,
  tenant,
}) => {
  const topic = `of:${AL}`;
  const listener = await harness.socket(tenant);
  const token = await user(harness, tenant, AL);
  const join = {
    access_token: token,
    config: { private: true, presence: { enabled: true }, broadcast: { ack: true } },
  };
  assert.is((await listener.ask(`realtime:${topic}`, 'phx_join', join)).status, 'ok');
  const post = (key: string) =>
    fetch(`${harness.url(tenant)}/api/broadcast`, {
      method: 'POST',
      headers: { apikey: tenant.anonKey, authorization: `Bearer ${key}` },
      body: JSON.stringify({ messages: [{ topic, event: 'rest', payload: { by: key === token }, private: true }] }),
    });
  assert.is((await post(tenant.anonKey)).status, 202);
  assert.is((await post(await user(harness, tenant, BO))).status, 202);
  assert.is((await listener.ask(`realtime:${topic}`, 'presence', { event: 'track', payload: {} })).status, 'error');
  assert.is((await post(token)).status, 202);
  await until(() => listener.events('broadcast').length > 0, 'the message of who may write');
  assert.equal(
    listener.events('broadcast').map(({ payload }) => payload.payload),
    [{ by: true }],
  );
});

test('a new token changes what a channel receives, and a token without read permission closes it', async ({
  harness,
  tenant,
}) => {
  const [socket, topic] = [await harness.socket(tenant), 'changing'];
  await listening(socket, topic, await user(harness, tenant, AL), spec('own'), spec('marks'));
  socket.push(`realtime:${topic}`, 'access_token', { access_token: await user(harness, tenant, BO) });
  // A channel handles its messages in order: this one is answered after the token is set.
  await socket.ask(`realtime:${topic}`, 'presence', { event: 'untrack' });
  await harness.sql(tenant, `insert into own values (20, '${AL}', 'of al'), (21, '${BO}', 'of bo')`);
  await mark(harness, tenant, socket);
  assert.equal(
    ofTable(socket, 'own').map(({ record }) => (record as { id: number }).id),
    [21],
  );
  const config = { private: true };
  const own = `realtime:of:${AL}`;
  assert.is(
    (await socket.ask(own, 'phx_join', { access_token: await user(harness, tenant, AL), config })).status,
    'ok',
  );
  socket.push(own, 'access_token', { access_token: await user(harness, tenant, BO) });
  await until(() => socket.events('phx_close').length === 1, 'the channel to close');
  assert.match(JSON.stringify(socket.events('system').at(-1)), /You no longer have permission to read/);
});

test('a channel closes when its token expires, and when it gets an invalid one', async ({ harness, tenant }) => {
  const socket = await harness.socket(tenant);
  const soon = await user(harness, tenant, AL, { exp: Math.floor(Date.now() / 1000) + 5 });
  assert.is((await socket.ask('realtime:soon', 'phx_join', { access_token: soon, config: {} })).status, 'ok');
  assert.is((await socket.ask('realtime:bad', 'phx_join', { config: {} })).status, 'ok');
  socket.push('realtime:bad', 'access_token', { access_token: 'bad' });
  await until(() => socket.events('phx_close').length === 2, 'both channels to close');
  const messages = socket.events('system').map(({ payload }) => `${payload.channel}: ${payload.message}`);
  assert.ok(messages.some((text) => /^soon: Token has expired \d+ seconds ago$/.test(text)));
  assert.ok(messages.includes('bad: The token provided is not a valid JWT'));
  assert.equal(await socket.ask('realtime:soon', 'broadcast', {}), {
    status: 'error',
    response: { reason: 'unmatched topic' },
  });
});

const HOSTILE_FILTERS = [
  "id=eq.1' or '1'='1",
  'id=eq.1; drop table marks',
  '"id" = 1 or true --=eq.1',
  'id=in.(1,2)) or (true',
  'id=eq.1)::text; select pg_sleep(10)--',
  'user_id=eq.(select id from auth.users limit 1)',
  `id=eq.${'9'.repeat(5000)}`,
  'id=constructor.1',
  'ctid=eq.(0,1)',
];
test('a hostile filter is rejected or matches no row, and never becomes SQL', async ({ harness, tenant }) => {
  for (const filter of HOSTILE_FILTERS) {
    const socket = await harness.socket(tenant);
    await listening(socket, 'f', tenant.serviceRoleKey, spec('own', { filter }));
    const [{ payload } = { payload: {} }] = socket.events('system');
    assert.is((payload as { status?: string }).status, 'error', filter);
    socket.webSocket.terminate();
  }
  assert.equal(await harness.sql(tenant, 'select count(*)::int > 0 as there from marks'), [{ there: true }]);
});

const HOSTILE_TOPICS: [unknown, RegExp][] = [
  ['realtime:', /TopicNameRequired/],
  ['phoenix2', /unmatched topic/],
  [`realtime:${'x'.repeat(300)}`, /TopicNameInvalid/],
  ['realtime:a\0b', /TopicNameInvalid/],
];
test('invalid topics are rejected, and names that look like internal ones are ordinary topics', async ({
  harness,
  tenant,
}) => {
  const socket = await harness.socket(tenant);
  for (const [topic, reason] of HOSTILE_TOPICS) {
    const { status, response } = await socket.ask(topic as string, 'phx_join', { config: {} });
    assert.is(status, 'error');
    assert.match(String(response.reason), reason);
  }
  for (const name of ['private:x', 'public:of', '__proto__', `'; drop table realtime.messages--`]) {
    assert.is((await socket.ask(`realtime:${name}`, 'phx_join', { config: {} })).status, 'ok', name);
  }
});

test('presence under a key such as __proto__ works as under any other key', async ({ harness, tenant }) => {
  const socket = await harness.socket(tenant);
  const presence = { enabled: true, key: '__proto__' };
  assert.is((await socket.ask('realtime:p', 'phx_join', { config: { presence } })).status, 'ok');
  const payload = JSON.parse('{"__proto__":{"admin":true},"phx_ref":"mine"}');
  assert.is((await socket.ask('realtime:p', 'presence', { event: 'track', payload })).status, 'ok');
  assert.is(({} as { admin?: boolean }).admin, undefined);
  assert.is((await socket.ask('realtime:p', 'presence', { event: 'track', payload: [] })).status, 'error');
});

test('an invalid frame closes only its own socket', async ({ harness, tenant }) => {
  const other = await harness.socket(tenant);
  const garbage = [
    '{',
    '[]',
    '"x"',
    '[null,null,1,2,{}]',
    Buffer.from([3, 255, 255, 255, 255, 255, 1]),
    Buffer.from([9]),
  ];
  for (const message of garbage) {
    const socket = await harness.socket(tenant);
    socket.webSocket.send(message);
    await until(() => socket.closed, 'the socket to close');
    assert.is(socket.closed?.code, 1007);
  }
  assert.is((await other.ask('phoenix', 'heartbeat', {})).status, 'ok');
});

test('payloads above the plan’s limit are rejected, and messages above every plan’s limit close the socket', async ({
  harness,
}) => {
  const small = await harness.project('small', 'free');
  const socket = await harness.socket(small);
  const config = { broadcast: { ack: true, self: true } };
  await socket.ask('realtime:big', 'phx_join', { config });
  const payload = { type: 'broadcast', event: 'e', payload: { x: 'x'.repeat(300 * 1024) } };
  assert.equal(await socket.ask('realtime:big', 'broadcast', payload), {
    status: 'error',
    response: { reason: 'payload_size_exceeded' },
  });
  const messages = [{ topic: 'big', event: 'e', payload: { x: 'x'.repeat(300 * 1024) } }];
  const byRest = await fetch(`${harness.url(small)}/api/broadcast`, {
    method: 'POST',
    headers: { apikey: small.anonKey },
    body: JSON.stringify({ messages }),
  });
  assert.is(byRest.status, 422);
  socket.webSocket.send('x'.repeat(4 * 1024 * 1024));
  await until(() => socket.closed, 'the socket to close');
  assert.is(socket.closed?.code, 1009);
});

test('channels, joins, messages and sockets beyond the plan’s limits are rejected with upstream’s errors', async ({
  harness,
}) => {
  const tenant = await harness.project('limits', 'free');
  const socket = await harness.socket(tenant);
  for (let n = 0; n < 100; n++) socket.push(`realtime:${n}`, 'phx_join', { config: {} });
  const { response } = await socket.ask('realtime:one-more', 'phx_join', { config: {} });
  assert.is(response.reason, 'ChannelRateLimitReached: Too many channels');
  const flooding = await harness.socket(tenant);
  await flooding.ask('realtime:flood', 'phx_join', { config: {} });
  for (let n = 0; n < 500; n++)
    flooding.push('realtime:flood', 'broadcast', { type: 'broadcast', event: 'e', payload: {} });
  await until(() => flooding.events('phx_close').length === 1, 'the flood to be stopped');
  assert.match(JSON.stringify(flooding.events('system')), /Too many messages per second/);
  for (let n = 0; n < 500; n++) flooding.push('realtime:same', 'phx_join', { config: {} });
  await until(() => flooding.closed, 'the socket of the join flood to close');
  assert.match(JSON.stringify(flooding.received), /ClientJoinRateLimitReached: Too many joins per second/);
  const sockets = await Promise.all(
    Array.from({ length: 420 }, () => harness.socket(tenant).catch((error: Error) => error.message)),
  );
  assert.ok(sockets.some((outcome) => typeof outcome === 'string' && outcome.includes('429')));
  assert.ok(sockets.some((outcome) => typeof outcome !== 'string'));
});

test('a client that does not read is disconnected with 1013, and other clients lose no message', async ({
  harness,
  tenant,
}) => {
  const [slow, fast, sender] = [
    await harness.socket(tenant),
    await harness.socket(tenant),
    await harness.socket(tenant),
  ];
  for (const socket of [slow, fast, sender]) await socket.ask('realtime:slow', 'phx_join', { config: {} });
  (slow.webSocket as unknown as { _socket: { pause(): void } })._socket.pause();
  const x = 'x'.repeat(1024 * 1024);
  const sent = 24;
  for (let n = 1; n <= sent; n++) {
    sender.push('realtime:slow', 'broadcast', { type: 'broadcast', event: 'e', payload: { x } });
    await until(() => fast.events('broadcast').length === n, 'the fast one to hear it');
  }
  (slow.webSocket as unknown as { _socket: { resume(): void } })._socket.resume();
  await until(() => slow.closed, 'the slow one to be closed');
  assert.ok([1013, 1006].includes(slow.closed?.code as number), String(slow.closed?.code));
  assert.ok(slow.events('broadcast').length < sent);
});

test('a tenant’s login cannot read the log as the replication role or with its own slot', async ({
  harness,
  tenant,
}) => {
  const tries = [
    `set role slipway_realtime`,
    `select pg_create_logical_replication_slot('mine', 'pgoutput')`,
    `select * from pg_logical_slot_peek_binary_changes('realtime_attacked', null, null, 'proto_version', '1', ` +
      `'publication_names', 'supabase_realtime')`,
    `select pg_drop_replication_slot('realtime_attacked')`,
    `alter role slipway_realtime password 'x'`,
  ];
  for (const statement of tries) {
    const code = await harness.sql(tenant, statement).then(
      () => 'allowed',
      (error: { code: string }) => error.code,
    );
    assert.is(code, '42501', statement);
  }
});

test.run();
