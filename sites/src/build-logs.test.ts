/** Tests the build logs on a real disk, with reads during writes. */
import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { BuildLogs } from './index.js';

const test = suite<{ logs: BuildLogs }>('logs of builds');
test.before.each(async (world) => {
  world.logs = new BuildLogs(await mkdtemp(path.join(tmpdir(), 'build-logs-')));
});
test.after.each(({ logs }) => rm(logs.folder, { recursive: true, force: true }));

async function whole(logs: BuildLogs, build: string, most = 1000): Promise<string> {
  const pieces: Buffer[] = [];
  for (let position = 0; ; position += (pieces.at(-1) as Buffer).length) {
    const piece = await logs.read('shop', build, position, most);
    if (piece.length === 0) return Buffer.concat(pieces).toString();
    pieces.push(piece);
  }
}

test('a log returns its sections in order, and can be read from any position', async ({ logs }) => {
  assert.equal(await logs.sections('shop', 'build-1'), []);
  const log = await logs.write('shop', 'build-1', 1000);
  log.append('Cloning', 'clöned\n');
  log.append('Installing', 'inst');
  log.append('Installing', 'alled\n');
  await log.end();
  assert.equal(await logs.sections('shop', 'build-1'), [
    { section: 'Cloning', bytes: 8 },
    { section: 'Installing', bytes: 10 },
  ]);
  for (const most of [1, 3, 1000]) assert.is(await whole(logs, 'build-1', most), 'clöned\ninstalled\n');
  assert.is((await logs.read('shop', 'build-1', 8, 4)).toString(), 'inst');
});

test('a log drops bytes above its limit, and ends with a note about it', async ({ logs }) => {
  const log = await logs.write('shop', 'build-1', 10);
  for (let line = 0; line < 1000; line += 1) log.append('Building', '1234567\n');
  await log.end();
  assert.is(await whole(logs, 'build-1'), '1234567\n12\n… the rest of the log is not kept\n');
});

test('a new attempt replaces the log, and logs of old builds are deleted', async ({ logs }) => {
  for (const [build, text] of [
    ['build-1', 'old'],
    ['build-1', 'new'],
    ['build-2', 'two'],
  ] as const) {
    const log = await logs.write('shop', build, 1000);
    log.append('Cloning', text);
    await log.end();
  }
  assert.is(await whole(logs, 'build-1'), 'new');
  await logs.keepOnly('shop', new Set(['build-2']));
  assert.equal([await whole(logs, 'build-1'), await whole(logs, 'build-2')], ['', 'two']);
  await logs.remove('shop');
  assert.equal(await readdir(logs.folder), []);
});

test('the oldest logs of a project are deleted beyond 20 MiB, but none that is being written', async ({ logs }) => {
  const builds = ['build-1', 'build-2', 'build-3', 'build-4'];
  for (const [index, build] of builds.entries()) {
    const log = await logs.write('shop', build, 16 * 2 ** 20);
    log.append('Building', 'x'.repeat(8 * 2 ** 20));
    await log.end();
    const time = new Date(Date.now() - 60_000 + index * 1000);
    await utimes(path.join(logs.folder, 'shop', build, '1-Building.log'), time, time);
  }
  const begun = await logs.write('shop', 'build-5', 1000);
  assert.is(await logs.bytes('shop'), 32 * 2 ** 20);
  await logs.keepOnly('shop', new Set([...builds, 'build-5']));
  assert.equal((await readdir(path.join(logs.folder, 'shop'))).sort(), ['build-3', 'build-4', 'build-5']);
  begun.append('Cloning', 'still written');
  await begun.end();
  assert.is(await whole(logs, 'build-5'), 'still written');
  assert.is(await logs.bytes('elsewhere'), 0);
});

test.run();
