/** Tests the trimming of a cache on a real disk. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { trimCache } from './project-cache.js';

const test = suite<{ folder: string }>('the cache of a project');
test.before.each(async (world) => {
  world.folder = await mkdtemp(path.join(tmpdir(), 'project-cache-'));
});
test.after.each(({ folder }) => rm(folder, { recursive: true, force: true }));

/** Makes an entry of 40 KiB that was used at this second. */
async function entry(folder: string, name: string, second: number): Promise<string> {
  const place = path.join(folder, name);
  await mkdir(path.join(place, 'inner'), { recursive: true });
  await writeFile(path.join(place, 'inner/file'), Buffer.alloc(40_960, 1));
  await utimes(place, second, second);
  return place;
}

test('the least recently used entries of all kinds are removed, and the rest is counted', async ({ folder }) => {
  assert.is(await trimCache(folder), 0);
  const oldest = await entry(folder, 'modules/oldest', 1);
  const [packages, newest] = [await entry(folder, 'packages/npm', 2), await entry(folder, 'modules/newest', 3)];
  const whole = await trimCache(folder);
  assert.ok(whole >= 3 * 40_960 && whole < 4 * 40_960, `${whole}`);
  assert.ok([oldest, packages, newest].every(existsSync));
  const left = await trimCache(folder, undefined, 2.5 * 40_960);
  assert.equal([oldest, packages, newest].map(existsSync), [false, true, true]);
  assert.is(left, await trimCache(folder));
});

test('a stopped trim removes nothing', async ({ folder }) => {
  const kept = await entry(folder, 'modules/one', 1);
  await trimCache(folder, AbortSignal.abort(), 0);
  assert.ok(existsSync(kept));
  assert.is(await trimCache(folder, undefined, 0), 0);
  assert.not.ok(existsSync(kept));
});

test.run();
