/** Tests storage with a database that the operator made read-only because it is full. */
import { authenticatorRole, databaseOf } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type StorageHarness, startStorageHarness } from './testing.js';

let harness: StorageHarness;
test.before(async () => {
  harness = await startStorageHarness();
});
test.after(() => harness?.close());

test('objects and buckets can be deleted from a full database, and an upload gets 507', async () => {
  const project = await harness.project('full');
  const client = await project.client();
  await client.createBucket('b');
  for (const name of ['a', 'b', 'c']) await client.from('b').upload(name, 'text');
  const role = `"${authenticatorRole('full')}"`;
  await harness.superuser(`
    alter role ${role} in database "${databaseOf('full')}" set default_transaction_read_only = on;
    select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = '${authenticatorRole('full')}'`);
  // The first request may still find the end of the old session.
  await client.listBuckets();
  const upload = await project.fetch('/object/b/d', { method: 'POST', body: 'text' });
  const { statusCode, code } = (await upload.json()) as Record<string, string>;
  assert.equal([upload.status, statusCode, code], [507, '507', 'InsufficientStorage']);
  assert.is((await client.from('b').remove(['a'])).data?.length, 1);
  assert.is((await project.fetch('/object/b/b', { method: 'DELETE' })).status, 200);
  assert.is((await client.emptyBucket('b')).error, null);
  assert.is((await client.deleteBucket('b')).error, null);
});

test.run();
