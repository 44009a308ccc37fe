/** Tests the caches of builds on a real disk. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { silentLog } from '../../testing.js';
import { BuildCaches } from './build-caches.js';

const test = suite<{ folder: string; caches: BuildCaches }>('caches of builds');
test.before.each(async (world) => {
  world.folder = await mkdtemp(path.join(tmpdir(), 'build-caches-'));
  world.caches = new BuildCaches(world.folder, silentLog);
});
test.after.each(async ({ folder, caches }) => {
  await caches.close();
  await rm(folder, { recursive: true, force: true });
});

async function fill(cache: string, modules: string, bytes = 50_000): Promise<string> {
  const place = path.join(cache, 'modules', modules);
  await mkdir(place, { recursive: true });
  await writeFile(path.join(place, 'file'), Buffer.alloc(bytes, 1));
  return place;
}

test('the size of a cache is known after a build, and after a restart', async ({ folder, caches }) => {
  const cache = await caches.open('shop');
  await fill(cache, 'one');
  assert.is(caches.bytes('shop'), 0);
  caches.release('shop');
  await until(() => caches.bytes('shop') > 50_000, 'the cache is measured');
  const next = new BuildCaches(folder, silentLog);
  await mkdir(path.join(folder, '.cleared-half'));
  await next.begin();
  assert.is(next.bytes('shop'), caches.bytes('shop'));
  assert.equal(await readdir(folder), ['shop']);
});

test('a cache that a build uses is not trimmed by a start', async ({ folder, caches }) => {
  // A cache keeps twenty entries.
  for (let modules = 0; modules < 30; modules += 1) await fill(path.join(folder, 'shop'), `${modules}`, 1);
  await caches.open('shop');
  await caches.begin();
  assert.is((await readdir(path.join(folder, 'shop/modules'))).length, 30);
  caches.release('shop');
  await until(async () => (await readdir(path.join(folder, 'shop/modules'))).length === 20, 'it is trimmed after');
});

test('a cleared cache is empty at once, and a removed one is gone', async ({ folder, caches }) => {
  const one = await fill(await caches.open('shop'), 'one');
  caches.release('shop');
  await caches.clear('shop');
  assert.is(caches.bytes('shop'), 0);
  assert.not.ok(existsSync(one));
  await until(async () => (await readdir(folder)).length === 0, 'its files are deleted');
  await caches.clear('shop');
  await fill(await caches.open('shop'), 'two');
  caches.release('shop');
  await caches.remove('shop');
  assert.equal([await readdir(folder), caches.bytes('shop')], [[], 0]);
});

test.run();
