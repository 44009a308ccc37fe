import { randomBytes, randomUUID } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { until } from '@slipway/testing';
import sharp from 'sharp';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FileStore } from './content/files.js';
import { type StorageHarness, type StorageProject, startStorageHarness } from './testing.js';

let harness: StorageHarness;
let project: StorageProject;
const AL = randomUUID();
const BO = randomUUID();

const OWN_FOLDER = `
  create policy own_read on storage.objects for select to authenticated
    using (bucket_id = 'own' and (storage.foldername(name))[1] = auth.uid()::text);
  create policy own_insert on storage.objects for insert to authenticated
    with check (bucket_id = 'own' and (storage.foldername(name))[1] = auth.uid()::text);
  create policy own_update on storage.objects for update to authenticated
    using (bucket_id = 'own' and owner_id = auth.uid()::text);
  create policy own_delete on storage.objects for delete to authenticated
    using (bucket_id = 'own' and owner_id = auth.uid()::text);`;

test.before(async () => {
  harness = await startStorageHarness();
  project = await harness.project('files');
  await project.sql(
    `insert into storage.buckets (id, name, public) values ('own', 'own', false), ('open', 'open', true);${OWN_FOLDER}`,
  );
});

test.after(() => harness?.close());

const good = <T>({ data, error }: { data: T; error: unknown }): NonNullable<T> => {
  if (error) throw error;
  return data as NonNullable<T>;
};

test('buckets are created, read, listed, changed, emptied and deleted', async () => {
  const client = await project.client();
  assert.equal(
    good(
      await client.createBucket('made', {
        public: false,
        fileSizeLimit: '1KB',
        allowedMimeTypes: ['image/*', 'text/plain'],
      }),
    ),
    { name: 'made' },
  );
  const made = good(await client.getBucket('made'));
  assert.equal(
    [made.id, made.public, made.file_size_limit, made.allowed_mime_types],
    ['made', false, 1000, ['image/*', 'text/plain']],
  );
  assert.equal(
    Object.keys(made).sort(),
    ['allowed_mime_types', 'created_at', 'file_size_limit', 'id', 'name', 'owner', 'public', 'updated_at'],
    'upstream’s members of one bucket',
  );
  assert.ok(good(await client.listBuckets()).some(({ id }) => id === 'made'));
  assert.equal(
    good(await client.listBuckets({ search: 'mad', limit: 1, sortColumn: 'name', sortOrder: 'desc' })).map(
      ({ id }) => id,
    ),
    ['made'],
  );
  const again = await client.createBucket('made');
  assert.is((again.error as unknown as { statusCode: string }).statusCode, '409');
  assert.is(again.error?.message, 'The resource already exists');
  good(await client.updateBucket('made', { public: true, fileSizeLimit: null }));
  assert.equal(
    [good(await client.getBucket('made')).public, good(await client.getBucket('made')).file_size_limit],
    [true, null],
  );
  good(await client.from('made').upload('a.txt', 'a', { contentType: 'text/plain' }));
  assert.is((await client.deleteBucket('made')).error?.message, 'The bucket you tried to delete is not empty');
  good(await client.emptyBucket('made'));
  assert.equal(good(await client.deleteBucket('made')), { message: 'Successfully deleted' });
  assert.is((await client.getBucket('made')).error?.message, 'Bucket not found');
  assert.is((await client.deleteBucket('made')).error?.message, 'Bucket not found');
});

test('a bucket’s limits of size and type apply to bodies, forms, chunks and copies', async () => {
  const client = await project.client();
  good(await client.createBucket('small', { public: false, fileSizeLimit: 10, allowedMimeTypes: ['text/*'] }));
  const bucket = client.from('small');
  good(await bucket.upload('ok.txt', '0123456789', { contentType: 'text/plain' }));
  const tooLarge = await bucket.upload('no.txt', '0123456789x', { contentType: 'text/plain' });
  assert.equal(
    [(tooLarge.error as unknown as { statusCode: string }).statusCode, tooLarge.error?.message],
    ['413', 'The object exceeded the maximum allowed size'],
  );
  const wrongType = await bucket.upload('no.png', 'x', { contentType: 'image/png' });
  assert.equal(
    [(wrongType.error as unknown as { statusCode: string }).statusCode, wrongType.error?.message],
    ['415', 'mime type image/png is not supported'],
  );
  assert.ok((await bucket.upload('no.txt', new Blob(['0123456789x'], { type: 'text/plain' }))).error);
  assert.ok((await bucket.upload('no.png', new Blob(['x'], { type: 'image/png' }))).error);
  const chunked = await project.fetch('/object/small/no.txt', {
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body: new Blob(['01234567', '89x']).stream(),
    duplex: 'half',
  } as RequestInit);
  assert.is(chunked.status, 413);
  good(await client.from('open').upload('big.txt', '0123456789x', { contentType: 'text/plain' }));
  assert.ok((await client.from('open').copy('big.txt', 'no.txt', { destinationBucket: 'small' })).error);
  assert.ok((await client.from('open').move('big.txt', 'no.txt', { destinationBucket: 'small' })).error);
  assert.equal(
    good(await bucket.list()).map(({ name }) => name),
    ['ok.txt'],
  );
});

test('an upload whose content type is invalid or a list matches no allowed type of a bucket', async () => {
  const client = await project.client();
  good(await client.createBucket('pictures', { public: true, allowedMimeTypes: ['image/*'] }));
  good(await client.createBucket('plain', { public: true }));
  const statuses = async (bucket: string, type: string) => {
    const small = new Blob(['x']);
    const form = new FormData();
    form.set('file', new File([small], 'f', { type }));
    const large = Buffer.alloc(1024 * 1024 + 1);
    return Promise.all(
      [small, form, large].map(async (body) => {
        const headers: Record<string, string> = {
          'x-upsert': 'true',
          ...(body === form ? {} : { 'content-type': type }),
        };
        const answer = await project.fetch(`/object/${bucket}/${randomUUID()}`, { method: 'POST', headers, body });
        return ((await answer.json()) as { statusCode?: string }).statusCode ?? answer.status;
      }),
    );
  };
  assert.equal(await statuses('pictures', 'image/png'), [200, 200, 200]);
  assert.equal(await statuses('pictures', 'IMAGE/svg+xml; charset="utf-8"'), [200, 200, 200]);
  for (const type of ['image/png, text/html', 'image/png;x=1, text/html', 'image', 'image/', 'image/png x']) {
    assert.equal(await statuses('pictures', type), ['415', '415', '415'], type);
  }
  assert.is((await statuses('plain', 'image/png, text/html'))[0], 200);
});

test('a move to another bucket needs UPDATE but not INSERT, and policies of the target apply', async () => {
  const client = await project.client();
  for (const id of ['from', 'to', 'shut']) good(await client.createBucket(id, { public: false }));
  good(await client.createBucket('texts', { public: false, allowedMimeTypes: ['text/plain'] }));
  await project.sql(`
    create policy mover_reads on storage.objects for select to authenticated
      using (bucket_id in ('from', 'to', 'shut', 'texts'));
    create policy mover_moves on storage.objects for update to authenticated
      using (bucket_id = 'from') with check (bucket_id in ('to', 'texts') and name not like 'not/%');`);
  for (const name of ['a', 'b']) good(await client.from('from').upload(name, name, { contentType: 'image/png' }));
  const mine = (await project.client(AL)).from('from');
  const refusedAs = async (name: string, target: string, destinationBucket?: string) => {
    const { error } = await mine.move(name, target, destinationBucket ? { destinationBucket } : undefined);
    return (error as unknown as { statusCode: string } | null)?.statusCode;
  };
  assert.ok((await mine.copy('a', 'copied', { destinationBucket: 'to' })).error);
  assert.is(await refusedAs('a', 'a', 'to'), undefined);
  assert.is(await good(await client.from('to').download('a')).text(), 'a');
  assert.is(await refusedAs('b', 'b', 'shut'), '403');
  assert.is(await refusedAs('b', 'not/b', 'to'), '403');
  assert.is(await refusedAs('b', 'c'), '403');
  assert.is(await refusedAs('b', 'b', 'texts'), '415');
  assert.is(await refusedAs('b', 'b', 'nowhere'), '404');
  assert.is(await refusedAs('b', 'a', 'to'), '409');
  assert.is(await good(await client.from('from').download('b')).text(), 'b');
  const back = (await project.client(AL)).from('to');
  assert.ok((await back.move('a', 'z', { destinationBucket: 'from' })).error);
  assert.is(await good(await client.from('to').download('a')).text(), 'a');
  await project.sql(`drop policy mover_reads on storage.objects; drop policy mover_moves on storage.objects;`);
});

test('a file can be uploaded as body, form or stream, with metadata, and is downloaded unchanged', async () => {
  const bucket = (await project.client()).from('open');
  const bytes = randomBytes(300_000);
  const up = good(
    await bucket.upload('in/body.bin', bytes, { cacheControl: '60', contentType: 'image/x-own', metadata: { a: 'ü' } }),
  );
  assert.is(up.path, 'in/body.bin');
  assert.is(up.fullPath, 'open/in/body.bin');
  assert.ok(up.id);
  good(
    await bucket.upload('in/form.bin', new Blob([bytes], { type: 'image/x-own' }), {
      cacheControl: '61',
      metadata: { b: 1 },
    }),
  );
  good(await bucket.upload('in/stream.bin', new Blob([bytes]).stream(), { duplex: 'half' }));
  for (const name of ['body', 'form', 'stream']) {
    const back = good(await bucket.download(`in/${name}.bin`));
    assert.ok(Buffer.from(await back.arrayBuffer()).equals(bytes), name);
  }
  const info = good(await bucket.info('in/body.bin'));
  assert.equal(
    [info.size, info.contentType, info.cacheControl, info.metadata],
    [300_000, 'image/x-own', 'max-age=60', { a: 'ü' }],
  );
  const form = good(await bucket.info('in/form.bin'));
  assert.equal([form.contentType, form.cacheControl, form.metadata], ['image/x-own', 'max-age=61', { b: 1 }]);
  assert.is(good(await bucket.exists('in/body.bin')), true);
  assert.is((await bucket.exists('in/nothing')).data, false);
  assert.is((await bucket.download('in/nothing')).error?.message !== undefined, true);
});

test('an existing object is replaced only by upsert and update', async () => {
  const bucket = (await project.client()).from('open');
  const first = good(await bucket.upload('once.txt', 'one'));
  const second = await bucket.upload('once.txt', 'two');
  assert.equal(
    [(second.error as unknown as { statusCode: string }).statusCode, second.error?.message],
    ['409', 'The resource already exists'],
  );
  assert.is(await good(await bucket.download('once.txt')).text(), 'one');
  assert.is(good(await bucket.upload('once.txt', 'three', { upsert: true })).id, first.id);
  assert.is(await good(await bucket.download('once.txt')).text(), 'three');
  good(await bucket.update('once.txt', 'four'));
  assert.is(await good(await bucket.download('once.txt')).text(), 'four');
});

test('objects are moved, copied and deleted, within a bucket and to another', async () => {
  const client = await project.client();
  const [open, own] = [client.from('open'), client.from('own')];
  good(await open.upload('m/a.txt', 'a', { metadata: { k: 'v' } }));
  assert.is(good(await open.move('m/a.txt', 'm/b.txt')).message, 'Successfully moved');
  assert.is((await open.exists('m/a.txt')).data, false);
  assert.is(good(await open.copy('m/b.txt', 'm/c.txt')).path, 'open/m/c.txt');
  good(await open.copy('m/c.txt', 'x/d.txt', { destinationBucket: 'own' }));
  good(await open.move('m/c.txt', 'x/e.txt', { destinationBucket: 'own' }));
  assert.is(await good(await own.download('x/d.txt')).text(), 'a');
  assert.is(await good(await own.download('x/e.txt')).text(), 'a');
  assert.equal(good(await own.info('x/d.txt')).metadata, { k: 'v' });
  assert.equal(
    good(await open.remove(['m/b.txt', 'm/none'])).map(({ name }) => name),
    ['m/b.txt'],
  );
  assert.is(await good(await own.download('x/d.txt')).text(), 'a');
  assert.is((await open.move('m/none', 'm/x')).error?.message, 'Object not found');
  assert.is((await open.copy('m/none', 'm/x')).error?.message, 'Object not found');
});

test('a folder can be listed by level, searched, sorted and paged', async () => {
  const client = await project.client();
  good(await client.createBucket('listed'));
  const bucket = client.from('listed');
  for (const name of ['a.txt', 'b.txt', 'dir/c.txt', 'dir/d_1.txt', 'dir/sub/e.txt', 'dirx/f.txt', 'z.txt'])
    good(await bucket.upload(name, name));
  const names = async (...options: Parameters<typeof bucket.list>) =>
    good(await bucket.list(...options)).map(({ name }) => name);
  assert.equal(await names(), ['dir', 'dirx', 'a.txt', 'b.txt', 'z.txt']);
  assert.equal(await names('dir'), ['sub', 'c.txt', 'd_1.txt']);
  assert.equal(await names('dir/'), ['sub', 'c.txt', 'd_1.txt']);
  assert.equal(await names('dir', { search: 'D_' }), ['d_1.txt']);
  assert.equal(await names('', { limit: 2, offset: 1 }), ['dirx', 'a.txt']);
  assert.equal(await names('', { sortBy: { column: 'name', order: 'desc' } }), [
    'dirx',
    'dir',
    'z.txt',
    'b.txt',
    'a.txt',
  ]);
  assert.is(good(await bucket.list('', { sortBy: { column: 'created_at', order: 'desc' } })).at(2)?.name, 'z.txt');
  const [folder] = good(await bucket.list());
  assert.is(folder?.id, null);
  const pages: string[] = [];
  let cursor: string | undefined;
  do {
    const page = good(await bucket.listV2({ with_delimiter: true, limit: 2, ...(cursor ? { cursor } : {}) }));
    pages.push(...page.folders.map(({ name }) => name), ...page.objects.map(({ name }) => name));
    cursor = page.nextCursor;
  } while (cursor);
  assert.equal(pages.sort(), ['a.txt', 'b.txt', 'dir/', 'dirx/', 'z.txt']);
  const level = good(await bucket.listV2({ prefix: 'dir/', with_delimiter: true }));
  assert.equal(level.folders, [{ name: 'dir/sub/', key: 'sub' }] as never);
  assert.equal(
    level.objects.map(({ name, key }) => [name, key]),
    [
      ['dir/c.txt', 'c.txt'],
      ['dir/d_1.txt', 'd_1.txt'],
    ],
  );
  const flat = good(await bucket.listV2({ prefix: 'dir/', sortBy: { column: 'name', order: 'desc' } }));
  assert.equal(
    flat.objects.map(({ name }) => name),
    ['dir/sub/e.txt', 'dir/d_1.txt', 'dir/c.txt'],
  );
});

test('each operation runs as the caller, and policies on storage.objects decide', async () => {
  const [al, bo] = [(await project.client(AL)).from('own'), (await project.client(BO)).from('own')];
  good(await al.upload(`${AL}/a.txt`, 'of al'));
  const [row] = await project.sql(`select owner::text, owner_id from storage.objects where name = '${AL}/a.txt'`);
  assert.equal(row, { owner: AL, owner_id: AL });
  assert.is(await good(await al.download(`${AL}/a.txt`)).text(), 'of al');
  const refused = await bo.upload(`${AL}/b.txt`, 'x');
  assert.equal(
    [(refused.error as unknown as { statusCode: string }).statusCode, refused.error?.message],
    ['403', 'new row violates row-level security policy'],
  );
  assert.ok((await bo.upload(`${AL}/a.txt`, 'x', { upsert: true })).error);
  assert.ok((await bo.download(`${AL}/a.txt`)).error);
  assert.ok((await bo.info(`${AL}/a.txt`)).error);
  assert.is((await bo.exists(`${AL}/a.txt`)).data, false);
  assert.ok((await bo.createSignedUrl(`${AL}/a.txt`, 60)).error);
  assert.not.ok(good(await bo.createSignedUrls([`${AL}/a.txt`], 60))[0]?.signedUrl);
  assert.ok((await bo.createSignedUploadUrl(`${AL}/c.txt`)).error);
  assert.ok((await bo.move(`${AL}/a.txt`, `${BO}/a.txt`)).error);
  assert.ok((await bo.copy(`${AL}/a.txt`, `${BO}/a.txt`)).error);
  assert.equal(good(await bo.remove([`${AL}/a.txt`])), []);
  assert.equal(good(await bo.list(AL)), []);
  assert.ok((await al.move(`${AL}/a.txt`, `${BO}/a.txt`)).error);
  good(await al.upload(`${AL}/a.txt`, 'again', { upsert: true }));
  good(await al.move(`${AL}/a.txt`, `${AL}/moved.txt`));
  assert.is(await good(await al.download(`${AL}/moved.txt`)).text(), 'again');
  assert.is(good(await al.remove([`${AL}/moved.txt`])).length, 1);
});

test('only the service role reads or creates buckets until a policy allows it', async () => {
  const al = await project.client(AL);
  assert.equal(good(await al.listBuckets()), []);
  assert.ok((await al.getBucket('own')).error);
  assert.is((await al.createBucket('mine')).error?.message, 'new row violates row-level security policy');
  assert.ok((await al.updateBucket('own', { public: true })).error);
  assert.ok((await al.emptyBucket('own')).error);
});

test('a public bucket is readable without a key, and a private one is not', async () => {
  const client = await project.client();
  good(await client.from('open').upload('p/ä b.txt'.replace('ä', 'a'), 'public'));
  const url = client.from('open').getPublicUrl('p/a b.txt').data.publicUrl;
  assert.is(await (await fetch(url)).text(), 'public');
  good(await client.from('own').upload('secret.txt', 'secret'));
  const closed = await fetch(client.from('own').getPublicUrl('secret.txt').data.publicUrl);
  assert.is(closed.status, 400);
  assert.equal(await closed.json(), {
    statusCode: '404',
    error: 'Bucket not found',
    message: 'Bucket not found',
    code: 'NoSuchBucket',
  });
  assert.is((await project.fetch('/render/image/public/own/secret.txt', { keyless: true })).status, 400);
  assert.is((await project.fetch('/object/info/public/own/secret.txt', { keyless: true })).status, 400);
  assert.is((await project.fetch('/object/own/secret.txt', { keyless: true })).status, 401);
});

test('a signed URL opens one object for a limited time, and a signed upload may write one name', async () => {
  const client = await project.client();
  const bucket = client.from('own');
  good(await bucket.upload('signed/a.txt', 'signed'));
  const { signedUrl } = good(await bucket.createSignedUrl('signed/a.txt', 60));
  assert.is(await (await fetch(signedUrl)).text(), 'signed');
  const download = good(await bucket.createSignedUrl('signed/a.txt', 60, { download: 'x y.txt' }));
  assert.match(
    (await fetch(download.signedUrl)).headers.get('content-disposition') as string,
    /^attachment; filename="x%20y.txt"/,
  );
  const many = good(await bucket.createSignedUrls(['signed/a.txt', 'signed/none'], 60));
  assert.is(await (await fetch(many[0]?.signedUrl as string)).text(), 'signed');
  assert.match(many[1]?.error as string, /does not exist/);
  const up = good(await bucket.createSignedUploadUrl('signed/up.txt'));
  const anon = new (client.constructor as new (...args: unknown[]) => typeof client)(project.storageUrl, {});
  good(await anon.from('own').uploadToSignedUrl('signed/up.txt', up.token, 'uploaded'));
  assert.is(await good(await bucket.download('signed/up.txt')).text(), 'uploaded');
  assert.ok((await anon.from('own').uploadToSignedUrl('signed/other.txt', up.token, 'x')).error);
});

test('range requests and conditional requests follow RFC 9110', async () => {
  good(await (await project.client()).from('open').upload('range.txt', '0123456789'));
  const ask = (headers: Record<string, string>) =>
    fetch(`${project.storageUrl}/object/public/open/range.txt`, { headers });
  for (const [range, status, text, contentRange] of [
    ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
    ['bytes=7-', 206, '789', 'bytes 7-9/10'],
    ['bytes=-2', 206, '89', 'bytes 8-9/10'],
    ['bytes=5-999999999', 206, '56789', 'bytes 5-9/10'],
    ['bytes=10-', 416, '', 'bytes */10'],
    ['bytes=-0', 416, '', 'bytes */10'],
    ['bytes=3-1', 200, '0123456789', null],
    ['bytes=0-1,3-4', 200, '0123456789', null],
    ['bytes=-', 200, '0123456789', null],
    ['lines=1-2', 200, '0123456789', null],
    ['bytes=99999999999999999999-', 200, '0123456789', null],
  ] as const) {
    const answer = await ask({ range });
    assert.equal(
      [range, answer.status, await answer.text(), answer.headers.get('content-range')],
      [range, status, text, contentRange],
    );
  }
  const whole = await ask({});
  const [etag, modified] = [whole.headers.get('etag') as string, whole.headers.get('last-modified') as string];
  assert.is((await ask({ 'if-none-match': etag })).status, 304);
  assert.is((await ask({ 'if-none-match': '"x"' })).status, 200);
  assert.is((await ask({ 'if-modified-since': modified })).status, 304);
  assert.is((await ask({ range: 'bytes=0-0', 'if-range': etag })).status, 206);
  assert.is((await ask({ range: 'bytes=0-0', 'if-range': '"x"' })).status, 200);
  const head = await fetch(`${project.storageUrl}/object/public/open/range.txt`, { method: 'HEAD' });
  assert.equal([head.status, head.headers.get('content-length')], [200, '10']);
});

test('images are resized within limits, also by signed URLs', async () => {
  const client = await project.client();
  const image = await sharp({ create: { width: 400, height: 200, channels: 3, background: 'red' } })
    .png()
    .toBuffer();
  good(await client.from('open').upload('red.png', image, { contentType: 'image/png' }));
  const sizeOf = async (url: string, headers = {}) => {
    const answer = await fetch(url, { headers });
    const { width, height, format } = await sharp(Buffer.from(await answer.arrayBuffer())).metadata();
    return [answer.headers.get('content-type'), width, height, format];
  };
  const at = (transform: object) => client.from('open').getPublicUrl('red.png', { transform }).data.publicUrl;
  assert.equal(await sizeOf(at({ width: 100, height: 100 })), ['image/png', 100, 100, 'png']);
  assert.equal(await sizeOf(at({ width: 100, height: 100, resize: 'contain' })), ['image/png', 100, 50, 'png']);
  assert.equal(await sizeOf(at({ width: 50 }), { accept: 'image/webp' }), ['image/webp', 50, 25, 'webp']);
  assert.equal(await sizeOf(at({ width: 50, format: 'origin' }), { accept: 'image/webp' }), [
    'image/png',
    50,
    25,
    'png',
  ]);
  for (const query of [
    'width=0',
    'width=2501',
    'height=-1',
    'quality=10',
    'resize=stretch',
    'width=1e2',
    'format=svg',
  ]) {
    assert.is((await fetch(`${project.storageUrl}/render/image/public/open/red.png?${query}`)).status, 400, query);
  }
  const { signedUrl } = good(
    await client.from('open').createSignedUrl('red.png', 60, { transform: { width: 20, height: 10 } }),
  );
  assert.equal((await sizeOf(signedUrl)).slice(1, 3), [20, 10]);
  assert.equal((await sizeOf(`${signedUrl}&width=2000`)).slice(1, 3), [20, 10]);
  const down = good(await client.from('open').download('red.png', { transform: { width: 30, height: 30 } }));
  assert.is((await sharp(Buffer.from(await down.arrayBuffer())).metadata()).width, 30);
});

test('a missing width or height keeps the proportions, and no image is enlarged beyond the largest side', async () => {
  const bucket = (await project.client()).from('open');
  for (const [width, height] of [
    [1, 26],
    [26, 1],
    [100, 3000],
  ] as const) {
    const create = { width, height, channels: 3, background: 'red' } as const;
    good(await bucket.upload(`${width}x${height}.png`, await sharp({ create }).png().toBuffer()));
  }
  const turned = sharp({ create: { width: 40, height: 20, channels: 3, background: 'red' } });
  good(await bucket.upload('turned.jpg', await turned.withMetadata({ orientation: 6 }).jpeg().toBuffer()));
  for (const [name, query, made] of [
    ['1x26.png', 'width=2500', [96, 2500]],
    ['1x26.png', 'width=2500&resize=contain', [96, 2500]],
    ['26x1.png', 'height=2500', [2500, 96]],
    ['1x26.png', 'width=2500&resize=fill', [2500, 26]],
    ['100x3000.png', 'width=90', [90, 2700]],
    ['100x3000.png', 'width=200', [100, 3000]],
    ['100x3000.png', 'width=200&resize=fill', [200, 2500]],
    ['100x3000.png', 'height=2000', [67, 2000]],
    ['100x3000.png', 'quality=50', [100, 3000]],
    ['turned.jpg', 'width=10', [10, 20]],
  ] as const) {
    const answer = await project.fetch(`/render/image/authenticated/open/${name}?${query}`);
    const { width, height } = await sharp(Buffer.from(await answer.arrayBuffer())).metadata();
    assert.equal([width, height], made, `${name} ${query}`);
  }
});

test('an image’s source is read when its turn comes, and only up to its limit, whatever the row’s size', async () => {
  const client = await project.client();
  const bucket = client.from('open');
  const image = await sharp({ create: { width: 40, height: 20, channels: 3, background: 'red' } })
    .png()
    .toBuffer();
  good(await bucket.upload('turn.png', image));
  good(await bucket.upload('lies.png', randomBytes(26 * 1024 * 1024)));
  await project.sql(`update storage.objects set metadata = metadata || '{"size":1}' where name = 'lies.png'`);
  const { read } = FileStore.prototype;
  const ranges: unknown[] = [];
  let most = 0;
  let reading = 0;
  FileStore.prototype.read = async function (place, range) {
    most = Math.max(most, ++reading);
    ranges.push(range);
    const source = await read.call(this, place, range);
    // Long enough for all transformations to start that do not wait.
    await new Promise((resolve) => setTimeout(resolve, 50));
    return source.once('close', () => reading--);
  };
  try {
    const render = (name: string) => project.fetch(`/render/image/authenticated/open/${name}?width=10`);
    const statuses = (await Promise.all(Array(8).fill('turn.png').map(render))).map(({ status }) => status);
    assert.equal(statuses, Array(8).fill(200));
    assert.ok(most <= 2, `${most} at once`);
    assert.is((await render('lies.png')).status, 413);
    assert.ok(ranges.every((range) => (range as { end?: number } | undefined)?.end === 25 * 1024 * 1024));
  } finally {
    FileStore.prototype.read = read;
  }
});

test('a response about objects has a limit, and a delete beyond it deletes nothing', async () => {
  const client = await project.client();
  good(await client.createBucket('heavy'));
  const bucket = client.from('heavy');
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  for (const name of names) good(await bucket.upload(name, name, { metadata: { of: name } }));
  await project.sql(
    `update storage.objects set metadata = metadata || jsonb_build_object('more', repeat('x', 1150000)) ` +
      `where bucket_id = 'heavy'`,
  );
  const tooLarge =
    /^The response would be larger than 8 MiB, or one object of it larger than 1.125 MiB: request fewer objects/;
  assert.match(String((await bucket.list()).error?.message), tooLarge);
  assert.match(String((await bucket.listV2()).error?.message), tooLarge);
  assert.match(String((await bucket.remove(names)).error?.message), tooLarge);
  assert.is(await good(await bucket.download('b')).text(), 'b');
  const [one] = good(await bucket.remove(['a'])) as unknown as { user_metadata: object }[];
  assert.equal(one?.user_metadata, { of: 'a' });
  await project.sql(`update storage.objects set user_metadata = metadata || metadata where bucket_id = 'heavy'`);
  assert.match(String((await bucket.info('b')).error?.message), tooLarge);
  assert.is((await project.fetch('/object/heavy/b', { method: 'DELETE' })).status, 200);
  good(await client.emptyBucket('heavy'));
});

/** Runs `interruption` between reading a row and reading or copying its content for the first time. */
async function beforeContent(interruption: () => Promise<unknown>, work: () => Promise<void>): Promise<void> {
  const { read, copy } = FileStore.prototype;
  let before: Promise<unknown> | undefined;
  FileStore.prototype.read = async function (...args) {
    await (before ??= interruption());
    return read.apply(this, args);
  };
  FileStore.prototype.copy = async function (...args) {
    await (before ??= interruption());
    return copy.apply(this, args);
  };
  try {
    await work();
  } finally {
    Object.assign(FileStore.prototype, { read, copy });
  }
}

test('an object that is replaced during a read, resize or copy is used in its new version', async () => {
  const bucket = (await project.client()).from('open');
  const png = (width: number) =>
    sharp({ create: { width, height: 20, channels: 3, background: 'red' } })
      .png()
      .toBuffer();
  const [small, large] = [await png(20), await png(40)];
  const upsert = (bytes: Buffer) => bucket.upload('replaced.png', bytes, { upsert: true, contentType: 'image/png' });
  const contents = async () => {
    const folder = path.join(harness.directory, 'files', 'content');
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => path.join(parentPath, name));
  };
  const replace = async () => {
    const before = (await contents()).length;
    good(await upsert(large));
    await until(async () => (await contents()).length === before, 'what was replaced to be removed');
  };
  for (const ask of [
    async () => (await project.fetch('/object/public/open/replaced.png')).arrayBuffer(),
    async () => (await project.fetch('/render/image/public/open/replaced.png?format=origin')).arrayBuffer(),
    async () => {
      good(await bucket.copy('replaced.png', 'copied.png'));
      return good(await bucket.download('copied.png')).arrayBuffer();
    },
  ]) {
    good(await upsert(small));
    await beforeContent(replace, async () => {
      assert.is((await sharp(Buffer.from(await ask())).metadata()).width, 40);
    });
  }
  good(await upsert(small));
  await beforeContent(
    async () => Promise.all((await contents()).map((file) => rm(file))),
    async () => assert.is((await bucket.download('replaced.png')).error?.message, 'Object not found'),
  );
});

/** Returns Node's warnings about unclosed files, after a garbage collection. */
async function leftOpen(): Promise<string[]> {
  const messages: string[] = [];
  const hear = ({ message }: Error) => messages.push(message);
  process.on('warning', hear);
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  for (let round = 0; round < 5; round++) {
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
  }
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', hear);
  return messages.filter((message) => message.includes('file descriptor'));
}

test('an object whose row has an invalid header value is rejected, and its file is closed', async () => {
  const client = await project.client();
  good(await client.from('open').upload('odd.txt', 'x'));
  await project.sql(
    `update storage.objects set metadata = metadata || '{"cacheControl":"a\\nb"}' where name = 'odd.txt'`,
  );
  const url = client.from('open').getPublicUrl('odd.txt').data.publicUrl;
  for (let count = 0; count < 3; count++) assert.is((await fetch(url)).status, 500);
  assert.equal(await leftOpen(), []);
});

test.run();
