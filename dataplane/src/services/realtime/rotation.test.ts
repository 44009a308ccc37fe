/** Tests a rotation of credentials under open sockets: sockets with valid tokens are not affected. */

import { until } from '@slipway/testing';
import * as assert from 'uvu/assert';
import { signToken } from '../../testing/project.js';
import { type RawSocket, realtimeSuite } from './testing/harness.js';

const test = realtimeSuite('realtime while credentials change');

const NEXT = 'the secret that comes, of 32 bytes or more';

const broadcasts = (socket: RawSocket) => socket.events('broadcast').length;

test('sockets survive a rotation of the JWT secret while their secret is valid', async ({ harness }) => {
  const tenant = await harness.project('rotated');
  const old = await harness.socket(tenant);
  await old.ask('realtime:room', 'phx_join', { config: {} });
  harness.change({ ...tenant, otherJwtSecrets: [NEXT] });
  const key = await signToken({ role: 'anon' }, NEXT);
  const fresh = await harness.socket(tenant, key);
  await fresh.ask('realtime:room', 'phx_join', { config: {} });
  const current = { ...tenant, jwtSecret: NEXT, anonKey: key, otherJwtSecrets: [tenant.jwtSecret] };
  harness.change(current);
  fresh.push('realtime:room', 'broadcast', { type: 'broadcast', event: 'e', payload: {} });
  await until(() => broadcasts(old) === 1, 'the broadcast');
  assert.is(old.closed, undefined);
  harness.change({ ...current, otherJwtSecrets: [] });
  await until(() => old.closed, 'the end of the old socket');
  assert.equal(old.closed, { code: 1008, reason: 'the API key is no longer good' });
  const { status } = await fresh.ask('realtime:other', 'phx_join', { config: {} });
  assert.equal([status, fresh.closed], ['ok', undefined]);
});

test('a channel whose token the old secret signed ends with that secret, and other channels stay open', async ({
  harness,
}) => {
  const tenant = await harness.project('channels');
  const user = await harness.token(tenant, { role: 'authenticated', sub: '1b0f64b2-0a3f-4f0e-9f57-0a4c6f1a8a11' });
  const key = await signToken({ role: 'anon' }, NEXT);
  harness.change({ ...tenant, jwtSecret: NEXT, otherJwtSecrets: [tenant.jwtSecret] });
  const socket = await harness.socket(tenant, key);
  await socket.ask('realtime:mine', 'phx_join', { config: {}, access_token: user });
  await socket.ask('realtime:ours', 'phx_join', { config: { broadcast: { self: true } } });
  harness.change({ ...tenant, jwtSecret: NEXT, anonKey: key });
  await until(() => socket.events('phx_close').length === 1, 'the end of the channel');
  assert.is((socket.received as unknown[][]).find(([, , , event]) => event === 'phx_close')?.[2], 'realtime:mine');
  socket.push('realtime:ours', 'broadcast', { type: 'broadcast', event: 'e', payload: {} });
  await until(() => broadcasts(socket) === 1, 'the broadcast');
});

test('a new database password closes no socket, and is used by new connections', async ({ harness }) => {
  const tenant = await harness.project('passwords');
  const socket = await harness.socket(tenant);
  await socket.ask('realtime:m', 'phx_join', { config: {} });
  await harness.admin(`alter role "authenticator.passwords" password 'another-one'`);
  harness.change({ ...tenant, authenticator: { ...tenant.authenticator, password: 'another-one' } });
  await harness.admin(
    `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'authenticator.passwords'`,
  );
  await harness.sql(tenant, `select realtime.send('{"n":1}', 'e', 'm', false)`);
  await until(() => broadcasts(socket) === 1, 'the message');
  assert.is(socket.closed, undefined);
});

test.run();
