/** Tests the newest lines of a service in memory and in a file. */
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Journal } from './journal.js';

const KEPT = 128 * 1024;
let folder: string;
test.before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-journal-'));
});
test.after(() => rm(folder, { recursive: true, force: true }));

test('a file has at most twice the kept bytes, and the newest lines in order', async () => {
  const file = path.join(folder, 'a', 'flood.log');
  const journal = new Journal(file);
  for (let line = 0; line < 20_000; line += 1) {
    journal.add(`${line} ${'x'.repeat(40)}`);
    if (line % 500 === 0) {
      await journal.flush();
      assert.ok((await stat(file)).size <= 2 * KEPT);
    }
    assert.ok(journal.bytes <= KEPT);
  }
  await journal.flush();
  const again = await new Journal(file).read();
  assert.ok(again.length > 1_000);
  assert.is(again.at(-1)?.split(' ')[0], '19999');
  const numbers = again.map((line) => Number(line.split(' ')[0]));
  assert.equal(
    numbers,
    numbers.map((_, index) => (numbers[0] as number) + index),
  );
});

test('lines that are added while the file is read follow those of the file', async () => {
  const file = path.join(folder, 'order.log');
  await writeFile(file, 'one\ntwo\n');
  const journal = new Journal(file);
  const reading = journal.read();
  journal.add('three');
  assert.equal(await reading, ['one', 'two', 'three']);
  await journal.flush();
  assert.is(await readFile(file, 'utf8'), 'one\ntwo\nthree\n');
});

test('a larger file than the kept bytes is read from its end, by whole lines', async () => {
  const file = path.join(folder, 'large.log');
  await writeFile(file, `${'a'.repeat(KEPT)}\nlast\n`);
  assert.equal(await new Journal(file).read(), ['last']);
});

test('a file that can not be read is tried again at the next read', async () => {
  const file = path.join(folder, 'folder.log');
  const journal = new Journal(path.join(file, 'x.log'));
  await writeFile(file, '');
  await journal.read().then(
    () => assert.unreachable(),
    () => undefined,
  );
  await rm(file);
  assert.equal(await journal.read(), []);
});

test.run();
