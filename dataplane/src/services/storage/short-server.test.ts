/** Tests storage with a database server that is out of resources, as after a neighbour has filled the lock table. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type StorageHarness, startStorageHarness } from './testing.js';

let harness: StorageHarness;
test.before(async () => {
  harness = await startStorageHarness();
});
test.after(() => harness?.close());

test('an upload gets 503 with Retry-After while the server is out of locks, and works afterwards', async () => {
  const project = await harness.project('short');
  await (await project.client()).createBucket('b');
  await project.sql(`
    create function public.short() returns trigger language plpgsql as $$
      begin raise exception 'out of shared memory' using errcode = '53200'; end $$;
    create trigger short before insert on storage.objects for each row execute function public.short();`);
  const upload = () => project.fetch('/object/b/a', { method: 'POST', body: 'text' });
  const refused = await upload();
  const { code } = (await refused.json()) as Record<string, string>;
  assert.equal([refused.status, code, refused.headers.get('retry-after')], [503, 'SlowDown', '1']);
  await project.sql('drop trigger short on storage.objects');
  assert.is((await upload()).status, 200);
});

test.run();
