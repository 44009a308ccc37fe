import { randomUUID } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type StorageHarness, type StorageProject, startStorageHarness } from './testing.js';

let harness: StorageHarness;
let project: StorageProject;

test.before(async () => {
  harness = await startStorageHarness();
  project = await harness.project('moved');
});

test.after(() => harness?.close());

test('the owner of a migrated app creates buckets, policies, keys and triggers in the schema storage', async () => {
  const [owner, stranger] = [randomUUID(), randomUUID()];
  await project.sql(`
    insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types)
      values ('avatars', 'avatars', true, 1000, '{image/*,text/plain}');
    alter table storage.objects enable row level security;
    create policy "Avatars are public" on storage.objects for select using (bucket_id = 'avatars');
    create policy "One's own folder" on storage.objects for insert to authenticated with check (
      bucket_id = 'avatars' and (storage.foldername(name))[1] = (select auth.uid()::text)
      and storage.extension(name) = 'txt' and storage.filename(name) <> 'no.txt'
      and storage.operation() = 'storage.object.upload');
    create table public.profiles (bucket text references storage.buckets (id),
      avatar uuid references storage.objects (id) on delete set null);
    create table public.uploads (name text);
    create function public.uploaded() returns trigger language plpgsql security definer set search_path = '' as
      $$ begin insert into public.uploads values (new.name); return new; end $$;
    create trigger on_upload after insert on storage.objects for each row execute function public.uploaded();
    grant all on storage.objects, storage.buckets to postgres, anon, authenticated, service_role;`);
  const bucket = async (sub: string) => (await project.client(sub)).from('avatars');
  const upload = async (sub: string, name: string) =>
    (await (await bucket(sub)).upload(name, 'x', { contentType: 'text/plain' })).error;
  assert.is(await upload(owner, `${owner}/a.txt`), null);
  for (const name of [`${owner}/no.txt`, `${owner}/a.png`, 'a.txt', `${stranger}/a.txt`])
    assert.ok(await upload(owner, name), name);
  assert.equal(await project.sql('select name from public.uploads'), [{ name: `${owner}/a.txt` }]);
  await project.sql(`insert into public.profiles select bucket_id, id from storage.objects`);
  const { data } = await (await bucket(stranger)).list(owner);
  assert.equal(
    data?.map(({ name }) => name),
    ['a.txt'],
  );
});

test('a database without the schema storage gets the schema at the first use', async () => {
  const old = await harness.project('old');
  await old.sql('drop schema storage cascade');
  const client = await old.client();
  assert.is((await client.createBucket('b')).error, null);
  assert.is((await client.from('b').upload('a.txt', 'a')).error, null);
  assert.equal(
    (await client.listBuckets()).data?.map(({ id }) => id),
    ['b'],
  );
});

test('a policy that fails reports its error, and undoes the upload', async () => {
  await project.sql(`
    insert into storage.buckets (id, name) values ('failing', 'failing');
    create function public.refuse() returns trigger language plpgsql as
      $$ begin if new.bucket_id = 'failing' then raise exception 'quota exceeded'; end if; return new; end $$;
    create trigger refuse before insert on storage.objects for each row execute function public.refuse();`);
  const { error } = await (await project.client()).from('failing').upload('a.txt', 'a');
  assert.is(error?.message, 'quota exceeded');
  assert.equal(await project.sql(`select id from storage.objects where bucket_id = 'failing'`), []);
});

test.run();
