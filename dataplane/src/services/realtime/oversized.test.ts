/**
 * Tests a row beyond the limit of the log's reader: it is announced without being read into memory, and the stream
 * continues.
 */

import { until } from '@slipway/testing';
import * as assert from 'uvu/assert';
import { MAX_WAL_BYTES } from './changes/replication-session.js';
import { realtimeSuite } from './testing/harness.js';

const test = realtimeSuite('changes that are too large');

test('a row of 300 MB is announced to subscribers without being in memory, and the next change follows', async ({
  harness,
}) => {
  const [tenant, neighbour] = [await harness.project('wide'), await harness.project('near')];
  const table = 'create table t (id int primary key, body text); alter publication supabase_realtime add table t';
  for (const each of [tenant, neighbour]) await harness.sql(each, table);
  await harness.sql(
    tenant,
    'create table other (id int primary key); alter publication supabase_realtime add table other',
  );
  const open = async (project: typeof tenant, of: string) => {
    const socket = await harness.socket(project);
    const changes = [{ event: '*', schema: 'public', table: of }];
    await socket.ask(`realtime:${of}`, 'phx_join', { config: { postgres_changes: changes } });
    await until(() => JSON.stringify(socket.events('system')).includes('Subscribed to PostgreSQL'), 'the subscription');
    return socket;
  };
  const [socket, other, near] = [await open(tenant, 't'), await open(tenant, 'other'), await open(neighbour, 't')];
  const before = process.memoryUsage().rss;
  let grown = 0;
  const timer = setInterval(() => {
    grown = Math.max(grown, process.memoryUsage().rss - before);
  }, 5);
  await harness.sql(tenant, `insert into t values (1, 'small')`);
  await harness.sql(
    tenant,
    `begin; insert into t values (2, repeat('x', 300000000)); insert into t values (3, 'after'); commit`,
  );
  await harness.sql(neighbour, `insert into t values (1, 'near')`);
  await harness.sql(tenant, `update t set id = 20, body = body || 'y' where id = 2`);
  await harness.sql(tenant, 'insert into other values (1)');
  await harness.sql(tenant, `insert into t values (4, 'last')`);
  const ids = (of: typeof socket) =>
    of.events('postgres_changes').map(({ payload }) => (payload.data as { record: { id: number } }).record.id);
  await until(() => ids(socket).includes(4) && ids(other).length === 1 && ids(near).length === 1, 'the last changes');
  clearInterval(timer);
  assert.equal(ids(socket), [1, 3, 4]);
  const notices = (of: typeof socket) =>
    of.events('system').filter(({ payload }) => /larger than/.test(String(payload.message)));
  assert.is(notices(socket).length, 2);
  assert.match(
    JSON.stringify(notices(socket)[0]),
    new RegExp(`A change of public.t was larger than ${MAX_WAL_BYTES} bytes`),
  );
  assert.equal([notices(other).length, notices(near).length], [0, 0]);
  // The whole row has 286 MiB; uncollected chunks of it had up to 156 MiB.
  assert.ok(grown < 240 * 1024 * 1024, `${Math.round(grown / 1024 / 1024)} MiB`);
});

test.run();
