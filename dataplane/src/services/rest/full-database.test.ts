import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type RestHarness, startRestHarness } from './testing.js';

let harness: RestHarness;
test.before(async () => {
  harness = await startRestHarness(`create table todos (id int);
    create function add() returns void language sql as 'insert into todos values (9)'`);
});
test.after(() => harness?.close());

async function setRole(settings: string): Promise<void> {
  await harness.sql(`${settings};
    select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'authenticator'`);
  // The first request may still find the end of the old session.
  await harness.ask('GET', '/todos');
}

test('a write to a full database returns 503 with the code 53100, and reads succeed', async () => {
  await setRole(`alter role authenticator set default_transaction_read_only = on;
    alter role authenticator set slipway.database_full = on`);
  for (const [method, path, body] of [
    ['POST', '/todos', { id: 1 }],
    ['PATCH', '/todos?id=eq.1', { id: 2 }],
    ['DELETE', '/todos?id=eq.1', undefined],
    ['POST', '/rpc/add', {}],
  ] as const) {
    const { status, body: error } = await harness.ask(method, path, { role: 'service_role', body });
    assert.equal([status, error.code], [503, '53100'], `${method} ${path}`);
  }
  assert.is((await harness.ask('GET', '/todos')).status, 200);
  const call = await harness.ask('GET', '/rpc/add');
  assert.equal([call.status, call.body.code], [405, '25006'], 'it would be refused in any database');
});

test('a database that is read-only for another reason gets no error about its size', async () => {
  await setRole('alter role authenticator reset slipway.database_full');
  const { body } = await harness.ask('POST', '/todos', { role: 'service_role', body: { id: 1 } });
  assert.match(body.code, /^2500[16]$/);
});

test.run();
