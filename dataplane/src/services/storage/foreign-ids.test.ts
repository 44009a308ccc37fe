/**
 * Tests every operation of storage with foreign ids in `storage.objects.version`. A foreign id is a text that storage
 * did not generate; a project's owner can write one by SQL.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { type Logger, pino } from 'pino';
import S3rver from 's3rver';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { collect } from './collect.js';
import { FileStore } from './content/files.js';
import { type S3Settings, S3Store } from './content/s3.js';
import { storageDatabases } from './database.js';
import { type StorageHarness, type StorageProject, startStorageHarness } from './testing.js';

interface Site {
  harness: StorageHarness;
  blog: StorageProject;
  shop: StorageProject;
  /** File of the platform beside the projects' folders. */
  secret: string;
  /** Version of an object of another project. */
  neighbour: string;
  log: () => string;
  s3: S3Settings | undefined;
}

const VICTIM = 'keys of the platform';
let folder: string;
let s3Server: S3rver;
const sites: Record<string, Site> = {};
const databases = storageDatabases();

async function siteOf(kind: string, s3: S3Settings | undefined): Promise<Site> {
  let written = '';
  const sink = new Writable({
    write(chunk, _, done) {
      written += chunk;
      done();
    },
  });
  const directory = path.join(folder, kind, 'objects');
  await mkdir(directory, { recursive: true });
  const log = pino(sink) as unknown as Logger;
  const harness = await startStorageHarness({ directory, log, ...(s3 ? { s3 } : {}) });
  const [blog, shop] = [await harness.project('blog'), await harness.project('shop')];
  await shop.sql(`insert into storage.buckets (id, name) values ('own', 'own')`);
  assert.is((await (await shop.client()).from('own').upload('a.txt', 'of shop')).error, null);
  const [{ version } = {}] = await shop.sql('select version from storage.objects');
  const secret = path.join(folder, kind, 'secrets.json');
  await writeFile(secret, VICTIM);
  return { harness, blog, shop, secret, neighbour: version as string, log: () => written, s3 };
}

test.before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-foreign-'));
  s3Server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory: path.join(folder, 's3'),
    configureBuckets: [{ name: 'slipway', configs: [] }],
  });
  const { port } = await s3Server.run();
  const s3 = {
    bucket: 'slipway',
    region: 'us-east-1',
    endpoint: `http://127.0.0.1:${port}`,
    accessKeyId: 'S3RVER',
    secretAccessKey: 'S3RVER',
  };
  sites.files = await siteOf('files', undefined);
  sites.s3 = await siteOf('s3', s3);
});

test.after(async () => {
  for (const { harness } of Object.values(sites)) await harness.close();
  await databases.close();
  await s3Server?.close();
  await rm(folder, { recursive: true, force: true });
});

const foreignIds = ({ neighbour, secret }: Site): string[] => [
  '../../secrets.json',
  '../../../secrets.json',
  `../shop/content/${neighbour.slice(0, 2)}/${neighbour}`,
  `../shop/${neighbour}`,
  `../../shop/${neighbour}`,
  `${randomUUID()}/../../../shop/${neighbour}`,
  `%2e%2e/shop/${neighbour}`,
  secret,
  '..',
  '.',
  '',
  `${neighbour}\n`,
  `${neighbour}/`,
  neighbour.toUpperCase(),
  'x'.repeat(5000),
];

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;

async function plant({ blog }: Site, bucket: string, ids: string[]): Promise<void> {
  const rows = ids.map(
    (id, i) => `(${literal(bucket)}, ${literal(`${i}.png`)}, ${literal(id)}, '{"size": 7, "mimetype": "image/png"}')`,
  );
  await blog.sql(`insert into storage.buckets (id, name, public) values ('${bucket}', '${bucket}', true)`);
  await blog.sql(`insert into storage.objects (bucket_id, name, version, metadata) values ${rows.join(', ')}`);
}

async function assertUnharmed({ secret, shop }: Site, what: string): Promise<void> {
  assert.is(await readFile(secret, 'utf8').catch(() => 'deleted'), VICTIM, what);
  const { data } = await (await shop.client()).from('own').download('a.txt');
  assert.is(await data?.text(), 'of shop', what);
}

const NOT_FOUND = /"statusCode":"404"/;

async function assertMissing({ blog }: Site, route: string, init: RequestInit = {}): Promise<void> {
  const answer = await blog.fetch(route, init);
  const text = await answer.text();
  assert.is(answer.status, 400, `${init.method ?? 'GET'} ${route} ${text}`);
  if (init.method !== 'HEAD') assert.match(text, NOT_FOUND);
}

for (const kind of ['files', 's3']) {
  test(`${kind}: a row with a foreign id counts as a missing object in every operation`, async () => {
    const site = sites[kind] as Site;
    const ids = foreignIds(site);
    await plant(site, 'reads', ids);
    const { data } = await (await site.blog.client()).from('reads').createSignedUrls(
      ids.map((_, i) => `${i}.png`),
      600,
    );
    for (const [i, id] of ids.entries()) {
      const name = `reads/${i}.png`;
      const token = new URL(data?.[i]?.signedUrl as string).searchParams.get('token');
      for (const route of ['', 'authenticated/', 'public/', 'info/', 'info/public/']) {
        await assertMissing(site, `/object/${route}${name}`);
        await assertMissing(site, `/object/${route}${name}`, { method: 'HEAD' });
      }
      await assertMissing(site, `/object/${name}`, { headers: { range: 'bytes=1-3' } });
      await assertMissing(site, `/object/sign/${name}?token=${token}`);
      await assertMissing(site, `/render/image/authenticated/${name}?width=10`);
      for (const route of ['copy', 'move']) {
        const body = JSON.stringify({ bucketId: 'reads', sourceKey: `${i}.png`, destinationKey: `${route}-${i}` });
        await assertMissing(site, `/object/${route}`, { method: 'POST', body });
      }
      await assertUnharmed(site, `read ${id}`);
    }
    assert.match(site.log(), /foreign content ids ignored/);
    assert.not.match(site.log(), /secrets\.json|"level":50/);
  });

  test(`${kind}: removing or replacing a row with a foreign id succeeds and removes no file`, async () => {
    const site = sites[kind] as Site;
    const ids = foreignIds(site);
    const json = (body: object) => ({ method: 'DELETE', body: JSON.stringify(body) });
    await plant(site, 'one', ids);
    for (const [i, id] of ids.entries()) {
      assert.is((await site.blog.fetch(`/object/one/${i}.png`, { method: 'DELETE' })).status, 200);
      await assertUnharmed(site, `remove ${id}`);
    }
    await plant(site, 'many', ids);
    const removed = await site.blog.fetch('/object/many', json({ prefixes: ids.map((_, i) => `${i}.png`) }));
    assert.is(((await removed.json()) as unknown[]).length, ids.length);
    await assertUnharmed(site, 'remove many');

    await plant(site, 'over', ids);
    const bucket = (await site.blog.client()).from('over');
    for (const [i, id] of ids.entries()) {
      assert.is((await bucket.upload(`${i}.png`, 'new', { upsert: true })).error, null);
      assert.is(await (await bucket.download(`${i}.png`)).data?.text(), 'new');
      await assertUnharmed(site, `upsert over ${id}`);
    }
    await plant(site, 'copied', ids);
    for (const [i, id] of ids.entries()) {
      const body = { bucketId: 'over', sourceKey: '0.png', destinationBucket: 'copied', destinationKey: `${i}.png` };
      const headers = { 'x-upsert': 'true' };
      const copied = await site.blog.fetch('/object/copy', { method: 'POST', headers, body: JSON.stringify(body) });
      assert.is(copied.status, 200);
      await assertUnharmed(site, `copy over ${id}`);
    }
    await plant(site, 'emptied', ids);
    assert.is((await site.blog.fetch('/bucket/emptied/empty', { method: 'POST' })).status, 200);
    assert.is((await site.blog.fetch('/bucket/emptied', { method: 'DELETE' })).status, 200);
    await assertUnharmed(site, 'empty and delete bucket');
  });

  test(`${kind}: the collector removes nothing for a foreign id or an upload id that is a path`, async () => {
    const site = sites[kind] as Site;
    await plant(site, 'collected', foreignIds(site));
    for (const id of ['..%2f..%2fsecrets.json', '../../secrets.json', randomUUID().toUpperCase()]) {
      const headers = { 'tus-resumable': '1.0.0' };
      for (const method of ['HEAD', 'DELETE']) {
        const { status } = await site.blog.fetch(`/upload/resumable/${id}`, { method, headers });
        assert.ok(status === 404 || status === 400, `${method} ${id} ${status}`);
      }
    }
    const files = new FileStore(site.harness.directory);
    const content = site.s3 ? new S3Store(site.s3, files) : files;
    const projects = new Map([site.blog, site.shop].map((project) => [project.ref, project]));
    const now = Date.now() + 30 * 24 * 3600 * 1000;
    const log = pino({ level: 'silent' });
    await collect({ content, files, databases, tenant: (ref) => projects.get(ref), log, now });
    await assertUnharmed(site, 'collect');
    for (const project of projects.values()) await databases.forget(project.ref);
  });
}

test('files: a symbolic link in place of content is not followed', async () => {
  const site = sites.files as Site;
  const version = randomUUID();
  const place = path.join(site.harness.directory, 'blog', 'content', version.slice(0, 2));
  await mkdir(place, { recursive: true });
  await symlink(site.secret, path.join(place, version));
  await plant(site, 'linked', [version]);
  await assertMissing(site, '/object/linked/0.png');
  await site.blog.fetch('/object/copy', {
    method: 'POST',
    body: JSON.stringify({ bucketId: 'linked', sourceKey: '0.png', destinationKey: '1.png' }),
  });
  assert.not.match(await (await site.blog.fetch('/object/linked/1.png')).text(), /platform/);
  assert.is((await site.blog.fetch('/object/linked/0.png', { method: 'DELETE' })).status, 200);
  await assertUnharmed(site, 'link');
});

test('files: an invalid size leaves no file open', async () => {
  const site = sites.files as Site;
  await site.blog.sql(`insert into storage.buckets (id, name, public) values ('sizes', 'sizes', true)`);
  const bucket = (await site.blog.client()).from('sizes');
  await bucket.upload('a.txt', 'abc');
  const content = path.join(site.harness.directory, 'blog', 'content');
  const open = async () => {
    const links = await readdir('/proc/self/fd');
    const targets = await Promise.all(links.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
    return targets.filter((target) => target.startsWith(content)).length;
  };
  for (const size of ['-5', '1.5', '1e300', '"abc"', '{}', '[3]', 'null']) {
    await site.blog.sql(
      `update storage.objects set metadata = metadata || '{"size": ${size}}' where bucket_id = 'sizes'`,
    );
    for (const route of ['/object/', '/object/info/', '/object/public/']) {
      assert.is((await site.blog.fetch(`${route}sizes/a.txt`)).status, 200, `${route} ${size}`);
    }
    if (process.platform === 'linux') assert.is(await open(), 0, size);
  }
});

test.run();
