/**
 * Tests that each URL that storage answers opens its object, whatever characters the name has, through storage-js and
 * through a plain HTTP client.
 */
import sharp from 'sharp';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type StorageHarness, type StorageProject, startStorageHarness } from './testing.js';

let harness: StorageHarness;
let project: StorageProject;
test.before(async () => {
  harness = await startStorageHarness();
  project = await harness.project('names');
  await project.sql(`insert into storage.buckets (id, name, public) values ('a b+c', 'a b+c', true)`);
});
test.after(() => harness?.close());

const BUCKET = 'a b+c';
/** Names as a caller gives them to storage-js, which puts them into a URL without encoding them. */
const NAMES = [
  'plain.txt',
  'my file.txt',
  'my folder/of two/my file.txt',
  'a+b.txt',
  'a&b.txt',
  'a@2x.txt',
  'a:b;c.txt',
  'a=b.txt',
  'a,b!c*d.txt',
  "it's (1) of $5.txt",
];
/** Names that storage-js can't send as they are, so callers encode them. */
const ENCODED = ['what?.txt', 'why? & how?.txt', 'a b.txt'];

const good = <T>({ data, error }: { data: T; error: unknown }): NonNullable<T> => {
  if (error) throw error;
  return data as NonNullable<T>;
};
const textOf = async (url: string) => {
  const answer = await fetch(url);
  return answer.ok ? await answer.text() : `${answer.status} ${await answer.text()}`;
};

const cases = [...NAMES.map((name) => [name, name]), ...ENCODED.map((name) => [name, encodeURIComponent(name)])];
for (const [name, given] of cases as [string, string][]) {
  test(`each URL of storage-js opens the object ${JSON.stringify(name)}, given as ${given}`, async () => {
    const bucket = (await project.client()).from(BUCKET);
    assert.is(good(await bucket.upload(given, name, { upsert: true })).fullPath, `${BUCKET}/${name}`);
    assert.is(await good(await bucket.download(given)).text(), name);
    assert.is(await textOf(good(await bucket.createSignedUrl(given, 60)).signedUrl), name);
    assert.is(await textOf(good(await bucket.createSignedUrl(given, 60, { download: true })).signedUrl), name);
    const [many] = good(await bucket.createSignedUrls([name], 60));
    assert.is(await textOf(many?.signedUrl as string), name);
    if (given === name) assert.is(await textOf(bucket.getPublicUrl(given).data.publicUrl), name);
    const { signedUrl, token } = good(await bucket.createSignedUploadUrl(given, { upsert: true }));
    const put = await fetch(signedUrl, { method: 'PUT', body: `${name} by its URL` });
    assert.is(put.status, 200, await put.text());
    assert.is(await good(await bucket.download(given)).text(), `${name} by its URL`);
    good(await bucket.uploadToSignedUrl(given, token, `${name} by its token`));
    assert.is(await good(await bucket.download(given)).text(), `${name} by its token`);
  });
}

for (const name of [...NAMES, ...ENCODED]) {
  test(`each URL of the API opens the object ${JSON.stringify(name)} as answered`, async () => {
    const place = `${BUCKET}/${name}`.split('/').map(encodeURIComponent).join('/');
    const post = async (path: string, body: object) => {
      const answer = await project.fetch(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-upsert': 'true' },
        body: JSON.stringify(body),
      });
      return JSON.parse(await answer.text());
    };
    const { url } = await post(`/object/upload/sign/${place}`, {});
    const put = await fetch(project.storageUrl + url, { method: 'PUT', body: name });
    assert.equal([put.status, JSON.parse(await put.text()).Key], [200, `${BUCKET}/${name}`]);
    const { signedURL } = await post(`/object/sign/${place}`, { expiresIn: 60 });
    assert.is(signedURL.split('?token=')[0], `/object/sign/${BUCKET}/${name.replaceAll('?', '%3F')}`);
    assert.is(await textOf(project.storageUrl + signedURL), name);
    const [many] = await post(`/object/sign/${encodeURIComponent(BUCKET)}`, { expiresIn: 60, paths: [name] });
    assert.is(await textOf(project.storageUrl + many.signedURL), name);
    const moved = `moved/${name}`;
    await post('/object/move', { bucketId: BUCKET, sourceKey: name, destinationKey: moved });
    const listed = await post(`/object/list/${encodeURIComponent(BUCKET)}`, { prefix: 'moved/', search: '' });
    const [top] = name.split('/');
    assert.ok(listed.some((entry: { name: string }) => entry.name === top));
    const copied = await post('/object/copy', { bucketId: BUCKET, sourceKey: moved, destinationKey: `copied/${name}` });
    assert.is(copied.Key, `${BUCKET}/copied/${name}`);
  });
}

for (const name of [...NAMES, ...ENCODED]) {
  test(`a resumable upload of the object ${JSON.stringify(name)} continues at its location`, async () => {
    const metadata = Object.entries({ bucketName: BUCKET, objectName: `tus/${name}` })
      .map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`)
      .join();
    const headers = { 'tus-resumable': '1.0.0', 'upload-length': String(name.length), 'upload-metadata': metadata };
    const created = await project.fetch('/upload/resumable', { method: 'POST', headers });
    assert.is(created.status, 201, await created.text());
    const location = new URL(created.headers.get('location') as string, harness.url).href;
    const patched = await fetch(location, {
      method: 'PATCH',
      headers: {
        ...{ apikey: project.serviceRoleKey, 'tus-resumable': '1.0.0', 'upload-offset': '0' },
        'content-type': 'application/offset+octet-stream',
      },
      body: name,
    });
    assert.is(patched.status, 204, await patched.text());
    const { data } = await (await project.client()).from(BUCKET).createSignedUrls([`tus/${name}`], 60);
    assert.is(await textOf(data?.[0]?.signedUrl as string), name);
  });
}

test('a resized image of any name opens by its signed and by its public URL', async () => {
  const bucket = (await project.client()).from(BUCKET);
  const image = await sharp({ create: { width: 40, height: 20, channels: 3, background: 'red' } })
    .png()
    .toBuffer();
  for (const name of ['my folder/red @2x+1.png', 'a&b=c.png']) {
    good(await bucket.upload(name, image, { contentType: 'image/png' }));
    const transform = { width: 10, height: 5 };
    const signed = good(await bucket.createSignedUrl(name, 60, { transform })).signedUrl;
    for (const url of [signed, bucket.getPublicUrl(name, { transform }).data.publicUrl]) {
      const { width } = await sharp(Buffer.from(await (await fetch(url)).arrayBuffer())).metadata();
      assert.is(width, 10, url);
    }
  }
});

test('a name with a character that S3 does not consider safe is rejected as an invalid key', async () => {
  for (const name of ['50%.txt', 'a#b.txt', '"quoted".txt', 'ä.txt', '日本.txt', 'a\\b.txt']) {
    const answer = await project.fetch(`/object/${encodeURIComponent(BUCKET)}/${encodeURIComponent(name)}`, {
      method: 'POST',
      body: 'x',
    });
    assert.equal([answer.status, JSON.parse(await answer.text()).code], [400, 'InvalidKey'], name);
  }
});

test('a signed URL that was encoded twice opens no other object', async () => {
  const bucket = (await project.client()).from(BUCKET);
  good(await bucket.upload('one.txt', 'one', { upsert: true }));
  good(await bucket.upload('two.txt', 'two', { upsert: true }));
  const { signedUrl } = good(await bucket.createSignedUrl('one.txt', 60));
  for (const other of ['two.txt', '%2574wo.txt', 'x%252F..%252Ftwo.txt', 'one.txt%2500', 'one.txt%25']) {
    const answer = await fetch(signedUrl.replace('one.txt', other));
    assert.is(answer.status, 400, other);
  }
});

test.run();
