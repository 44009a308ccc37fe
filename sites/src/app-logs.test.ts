/** Tests the output of apps on a real disk. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { AppLogs } from './index.js';

const test = suite<{ logs: AppLogs }>('logs of apps');
test.before.each(async (world) => {
  world.logs = new AppLogs(await mkdtemp(path.join(tmpdir(), 'app-logs-')));
});
test.after.each(({ logs }) => rm(logs.folder, { recursive: true, force: true }));

async function textFrom(logs: AppLogs, position: number, most: number): Promise<string> {
  const pieces: Buffer[] = [];
  for (let at = position; ; at += (pieces.at(-1) as Buffer).length) {
    const piece = await logs.read('shop', at, most);
    if (piece.length === 0) return Buffer.concat(pieces).toString();
    pieces.push(piece);
  }
}

test('an output can be read from any position across its files', async ({ logs }) => {
  assert.equal(await logs.kept('shop'), { start: 0, end: 0 });
  assert.is(await textFrom(logs, 0, 10), '');
  const lines = Array.from({ length: 20 }, (_, number) => `line ${number}\n`);
  for (const line of lines) await logs.append('shop', Buffer.from(line), 400);
  const whole = lines.join('');
  assert.ok((await readdir(path.join(logs.folder, 'shop'))).length > 2, 'several files');
  assert.equal(await logs.kept('shop'), { start: 0, end: whole.length });
  for (const position of [0, 1, 49, 50, whole.length - 1, whole.length, whole.length + 5]) {
    assert.is(await textFrom(logs, position, 7), whole.slice(position));
  }
});

test('no more than the limit is kept, and positions stay what they were', async ({ logs }) => {
  let written = '';
  for (let number = 0; number < 300; number += 1) {
    const line = `line ${number}\n`;
    written += line;
    await logs.append('shop', Buffer.from(line), 1000);
    const bytes = await logs.bytes('shop');
    assert.ok(bytes <= 1000, `${bytes} bytes are kept`);
  }
  const { start, end } = await logs.kept('shop');
  assert.is(end, written.length);
  assert.ok(end - start > 800, `${end - start} bytes are kept`);
  assert.is(await textFrom(logs, start, 64), written.slice(start));
  assert.is(await textFrom(logs, 0, 64), '', 'what is deleted');
});

test('outputs of other projects are apart, and a removed one begins anew', async ({ logs }) => {
  await logs.append('shop', Buffer.from('ours\n'), 1000);
  await logs.append('shop-2', Buffer.from('theirs\n'), 1000);
  await logs.remove('shop');
  assert.equal(await logs.kept('shop'), { start: 0, end: 0 });
  await logs.append('shop', Buffer.from('new\n'), 1000);
  assert.is(await textFrom(logs, 0, 64), 'new\n');
  for (const ref of ['..', 'shop/../shop-2', '']) {
    const failure = await logs.bytes(ref).then(() => '', String);
    assert.match(failure, 'not a valid name', ref);
  }
});

test.run();
