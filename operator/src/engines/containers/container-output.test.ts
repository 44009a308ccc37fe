/** Tests the copies of containers' output. The test writes the files as conmon does, and as a hostile app could. */
import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { COPIED_BYTES, ContainerOutput } from './container-output.js';

interface World {
  folder: string;
  file: string;
  output: ContainerOutput;
  kept: () => string;
  /** A process that starts again. */
  again: () => ContainerOutput;
}

const AT = '2026-07-01T14:00:00.123456789+02:00';
const SHOWN = '2026-07-01T12:00:00.123Z';
const record = (text: string, mark = 'F', stream = 'stdout') => `${AT} ${stream} ${mark} ${text}\n`;

const test = suite<World>('output of containers');
test.before.each((world) => {
  world.folder = mkdtempSync(path.join(tmpdir(), 'slipway-output-'));
  const disk = path.join(world.folder, 'disk');
  mkdirSync(path.join(disk, 'store'), { recursive: true });
  const kept: Buffer[] = [];
  world.kept = () => Buffer.concat(kept).toString();
  world.again = () =>
    new ContainerOutput({ disk, volatile: world.folder, keep: async (bytes) => void kept.push(Buffer.from(bytes)) });
  world.output = world.again();
  world.file = path.join(disk, 'store', 'app.log');
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

test('each line is copied once, with its time, also by a process that starts again', async (world) => {
  const { output, file, kept, again } = world;
  await output.copy(file);
  assert.is(kept(), '', 'before the first line');
  writeFileSync(file, `${record('one ä')}${record('two', 'F', 'stderr')}${AT} stdout F thr`);
  await output.copy(file);
  await output.copy(file);
  assert.is(kept(), `${SHOWN} one ä\n${SHOWN} two\n`);
  appendFileSync(file, 'ee\n');
  await again().copy(file);
  assert.is(kept(), `${SHOWN} one ä\n${SHOWN} two\n${SHOWN} three\n`);
});

test('the parts of a long line become one line, and the two streams stay apart', async ({ output, file, kept }) => {
  // conmon ends a part anywhere, also within a character.
  const [first, second] = [Buffer.from('ä').subarray(0, 1), Buffer.from('ä').subarray(1)];
  writeFileSync(
    file,
    Buffer.concat([
      ...[Buffer.from(`${AT} stdout P a`), first, Buffer.from('\n')],
      ...[Buffer.from(`${AT} stdout P `), second, Buffer.from('b\n')],
      Buffer.from(record('c')),
      Buffer.from(`${record('begun', 'P')}${record('error', 'F', 'stderr')}${record('prompt: ', 'P')}`),
    ]),
  );
  await output.copy(file);
  assert.is(kept(), `${SHOWN} aäbc\n${SHOWN} begun\n${SHOWN} error\n${SHOWN} prompt: \n`);
});

test('the newest lines of a flood are copied, and a line reports the rest', async ({ output, file, kept }) => {
  const line = record('x'.repeat(1000));
  const count = Math.ceil((3 * COPIED_BYTES) / line.length);
  writeFileSync(file, line.repeat(count));
  await output.copy(file);
  const [note, ...lines] = kept().trimEnd().split('\n');
  const left = Number(/ slipway: (\d+) bytes of output are left out$/.exec(note as string)?.[1]);
  assert.is(left + lines.length * line.length, line.length * count);
  assert.ok(left >= 2 * COPIED_BYTES, `${left} bytes`);
  assert.ok(lines.every((each) => each === `${SHOWN} ${'x'.repeat(1000)}`));
});

test('a file that conmon replaced is copied from its begin, as is one after a removed container', async (world) => {
  const { output, file, kept } = world;
  writeFileSync(file, record('old'));
  await output.copy(file);
  writeFileSync(`${file}.tmp`, record('new') + record('newer'));
  renameSync(`${file}.tmp`, file);
  await output.copy(file);
  rmSync(file);
  await output.forget(file);
  // The inode may be that of the deleted file.
  writeFileSync(file, record('next') + record('next') + record('last'));
  await output.copy(file);
  const words = kept().replaceAll(`${SHOWN} `, '').trimEnd().split('\n');
  assert.equal(words, ['old', 'new', 'newer', 'next', 'next', 'last']);
});

test('nothing but a file on the disk of the project is read', async ({ folder, output, file, kept }) => {
  const secret = path.join(folder, 'secret');
  writeFileSync(secret, record('secret'));
  symlinkSync(secret, file);
  await output.copy(file);
  rmSync(file);
  mkdirSync(file);
  await output.copy(file);
  rmSync(file, { recursive: true });
  // A folder of the path that leads to another file system.
  const elsewhere = mkdtempSync('/dev/shm/slipway-output-');
  try {
    writeFileSync(path.join(elsewhere, 'app.log'), record('elsewhere'));
    rmSync(path.dirname(file), { recursive: true });
    symlinkSync(elsewhere, path.dirname(file));
    await output.copy(file);
  } finally {
    rmSync(elsewhere, { recursive: true });
  }
  assert.is(kept(), '');
});

test('text that is no record of conmon is copied as it is', async ({ output, file, kept }) => {
  writeFileSync(file, `no record\n\nnotime stdout F text\n`);
  await output.copy(file);
  assert.match(kept(), /^\S+Z no record\n\S+Z \nnotime text\n$/);
});

test('a copy that fails is made again', async ({ folder, file, kept, again }) => {
  const disk = path.join(folder, 'disk');
  writeFileSync(file, record('one'));
  const failing = new ContainerOutput({
    disk,
    volatile: folder,
    keep: async () => {
      throw new Error('the disk is full');
    },
  });
  assert.is(await failing.copy(file).catch((error: Error) => error.message), 'the disk is full');
  await again().copy(file);
  assert.is(kept(), `${SHOWN} one\n`);
});

test.run();
