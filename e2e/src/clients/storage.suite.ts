/** Calls the whole public API of an unmodified storage-js at a project's URL. */
import { randomBytes } from 'node:crypto';
import { StorageClient } from '@supabase/storage-js';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Inventory, Recorder } from './recorder.js';
import { good, type WalkedProject } from './walked-project.js';

type Bucket = ReturnType<StorageClient['from']>;
type Download = ReturnType<Bucket['download']>;
type Vectors = StorageClient['vectors'];
type VectorBucket = ReturnType<Vectors['from']>;

const CLIENT: Inventory<StorageClient> = {
  from: 'works',
  createBucket: 'works',
  getBucket: 'works',
  listBuckets: 'works',
  updateBucket: 'works',
  emptyBucket: 'works',
  deleteBucket: 'works',
  purgeBucketCache: 'refused',
  throwOnError: 'works',
  setHeader: 'works',
};
const BUCKET: Inventory<Bucket> = {
  upload: 'works',
  update: 'works',
  createSignedUploadUrl: 'works',
  uploadToSignedUrl: 'works',
  download: 'works',
  createSignedUrl: 'works',
  createSignedUrls: 'works',
  getPublicUrl: 'works',
  info: 'works',
  exists: 'works',
  list: 'works',
  listV2: 'works',
  move: 'works',
  copy: 'works',
  remove: 'works',
  purgeCache: 'refused',
  toBase64: 'works',
  throwOnError: 'works',
  setHeader: 'works',
};
const DOWNLOAD: Inventory<Download> = {
  asStream: 'works',
  // biome-ignore lint/suspicious/noThenProperty: it is awaited by it.
  then: 'works',
  catch: 'works',
  finally: 'works',
};
const ANALYTICS: Inventory<StorageClient['analytics']> = {
  createBucket: 'refused',
  listBuckets: 'refused',
  deleteBucket: 'refused',
  from: 'refused',
  throwOnError: 'works',
  setHeader: 'works',
};
const VECTORS: Inventory<Vectors> = {
  createBucket: 'refused',
  getBucket: 'refused',
  listBuckets: 'refused',
  deleteBucket: 'refused',
  from: 'refused',
  throwOnError: 'works',
  setHeader: 'works',
};
const VECTOR_BUCKET: Inventory<VectorBucket> = {
  createIndex: 'refused',
  listIndexes: 'refused',
  getIndex: 'refused',
  deleteIndex: 'refused',
  index: 'refused',
  throwOnError: 'works',
  setHeader: 'works',
};
const VECTOR_INDEX: Inventory<ReturnType<VectorBucket['index']>> = {
  putVectors: 'refused',
  getVectors: 'refused',
  listVectors: 'refused',
  queryVectors: 'refused',
  deleteVectors: 'refused',
  throwOnError: 'works',
  setHeader: 'works',
};

export function walkStorage(test: Test, given: () => WalkedProject): void {
  const recorder = new Recorder({
    StorageClient: CLIENT,
    StorageFileApi: BUCKET,
    BlobDownloadBuilder: DOWNLOAD,
    StorageAnalyticsClient: ANALYTICS,
    StorageVectorsClient: VECTORS,
    VectorBucketScope: VECTOR_BUCKET,
    VectorIndexScope: VECTOR_INDEX,
  });
  const newClient = (role: 'anon_key' | 'service_role_key' = 'service_role_key') => {
    const { project, platform, headers } = given();
    return recorder.watch(
      new StorageClient(`${project.project_url}/storage/v1`, headers(project[role]), platform.network.fetch),
    );
  };
  const fetched = (url: string) => given().platform.network.fetch(url);

  test('storage-js: buckets are made, read, listed, changed, emptied and removed', async () => {
    const storage = newClient();
    good(await storage.createBucket('made', { public: false, fileSizeLimit: '1KB' }));
    assert.is(good(await storage.getBucket('made')).file_size_limit, 1000);
    assert.ok(good(await storage.listBuckets({ search: 'mad' })).some(({ id }) => id === 'made'));
    good(await storage.updateBucket('made', { public: true }));
    good(await storage.from('made').upload('a.txt', 'a'));
    assert.is((await storage.deleteBucket('made')).error?.message, 'The bucket you tried to delete is not empty');
    good(await storage.emptyBucket('made'));
    good(await storage.deleteBucket('made'));
    const thrown = await newClient()
      .setHeader('x-client-info', 'walk')
      .throwOnError()
      .getBucket('made')
      .catch((error: Error) => error.message);
    assert.is(thrown, 'Bucket not found');
  });

  test('storage-js: an uploaded file is downloaded, also by a signed URL while that is valid', async () => {
    const storage = newClient();
    good(await storage.createBucket('files', { public: false }));
    good(await storage.createBucket('open', { public: true }));
    const bucket = storage.from('files');
    assert.is(bucket.toBase64('a'), 'YQ==');
    const bytes = randomBytes(300_000);
    good(await bucket.upload('in/a.bin', bytes, { contentType: 'image/x-own', metadata: { a: 'ü' } }));
    const blob = good(await bucket.download('in/a.bin'));
    assert.equal(Buffer.from(await blob.arrayBuffer()), bytes);
    const stream = good(await bucket.download('in/a.bin').asStream());
    assert.is((await new Response(stream).arrayBuffer()).byteLength, bytes.length);
    let ended = 0;
    const absent = await bucket.download('absent').finally(() => ended++);
    assert.ok(absent.error);
    const caught = await bucket
      .throwOnError()
      .download('absent')
      .catch(() => 'thrown');
    assert.equal([ended, caught], [1, 'thrown']);

    const again = newClient().from('files').setHeader('x-client-info', 'walk');
    assert.is(good(await again.info('in/a.bin')).size, bytes.length);
    assert.equal([(await again.exists('in/a.bin')).data, (await again.exists('absent')).data], [true, false]);
    good(await again.update('in/a.bin', 'changed'));
    const { signedUrl } = good(await again.createSignedUrl('in/a.bin', 60));
    assert.is(await (await fetched(signedUrl)).text(), 'changed');
    const [one, none] = good(await again.createSignedUrls(['in/a.bin', 'absent'], 60));
    assert.is((await fetched(one?.signedUrl as string)).status, 200);
    assert.ok(none?.error);
    const { token } = good(await again.createSignedUploadUrl('in/signed.txt'));
    good(await newClient('anon_key').from('files').uploadToSignedUrl('in/signed.txt', token, 'uploaded'));
    assert.ok((await newClient('anon_key').from('files').upload('in/anon.txt', 'x')).error);
    assert.ok((await newClient('anon_key').from('files').download('in/signed.txt')).error);
  });

  test('storage-js: files are listed, moved, copied and removed, and public ones need no key', async () => {
    const storage = newClient();
    const bucket = storage.from('files');
    const names = async () => good(await bucket.list('in')).map(({ name }) => name);
    assert.equal(await names(), ['a.bin', 'signed.txt']);
    const page = good(await bucket.listV2({ prefix: 'in/', limit: 1 }));
    assert.equal([page.objects.length, page.hasNext], [1, true]);
    good(await bucket.move('in/signed.txt', 'in/moved.txt'));
    good(await bucket.copy('in/moved.txt', 'shown.txt', { destinationBucket: 'open' }));
    const { publicUrl } = newClient('anon_key').from('open').getPublicUrl('shown.txt').data;
    assert.is(await (await fetched(publicUrl)).text(), 'uploaded');
    assert.is(good(await bucket.remove(['in/a.bin', 'in/moved.txt'])).length, 2);
    assert.equal(await names(), []);
  });

  test('storage-js: absent features are rejected, and no call hangs', async () => {
    const storage = newClient();
    const { analytics, vectors } = storage;
    const lake = recorder.watch(analytics).setHeader('x-client-info', 'walk');
    const watched = recorder.watch(vectors).setHeader('x-client-info', 'walk');
    const bucket = watched.from('some').setHeader('x-client-info', 'walk');
    const index = bucket.index('one').setHeader('x-client-info', 'walk');
    const vector = { float32: [1] };
    const refused: PromiseLike<{ error: unknown }>[] = [
      storage.purgeBucketCache('files'),
      storage.from('files').purgeCache('in/a.bin'),
      lake.createBucket('lake'),
      lake.listBuckets(),
      lake.deleteBucket('lake'),
      lake.from('lake').listNamespaces(),
      watched.createBucket('some'),
      watched.getBucket('some'),
      watched.listBuckets(),
      watched.deleteBucket('some'),
      bucket.createIndex({ indexName: 'one', dataType: 'float32', dimension: 1, distanceMetric: 'cosine' }),
      bucket.listIndexes(),
      bucket.getIndex('one'),
      bucket.deleteIndex('one'),
      index.putVectors({ vectors: [{ key: 'k', data: vector }] }),
      index.getVectors({ keys: ['k'] }),
      index.listVectors(),
      index.queryVectors({ queryVector: vector }),
      index.deleteVectors({ keys: ['k'] }),
    ];
    for (const [at, answer] of refused.entries()) assert.ok((await answer).error, `${at} was refused`);
    const throwing: PromiseLike<unknown>[] = [
      lake.throwOnError().listBuckets(),
      watched.throwOnError().listBuckets(),
      bucket.throwOnError().listIndexes(),
      index.throwOnError().listVectors(),
    ];
    const settled = await Promise.allSettled(throwing);
    assert.equal([...new Set(settled.map(({ status }) => status))], ['rejected']);
  });

  test('storage-js: every public method was called above', () => {
    assert.equal(recorder.uncalled(), []);
  });
}
