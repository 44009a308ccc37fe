import { fork } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ensureSharedCopy } from './shared-copy.js';

const FILES = 300;

let home: string;
let source: string;
let target: string;

test.before.each(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  source = path.join(home, 'source');
  target = path.join(home, 'shared', 'program-1');
  await mkdir(path.join(source, 'lib'), { recursive: true });
  await mkdir(path.dirname(target));
  for (let i = 0; i < FILES; i++) await writeFile(path.join(source, 'lib', `${i}.so`), `library ${i}`, { mode: 0o600 });
  await symlink('0.so', path.join(source, 'lib', 'link.so'));
});

test.after.each(() => rm(home, { recursive: true, force: true }));

async function expectWholeCopy(): Promise<void> {
  assert.equal(await readdir(path.dirname(target)), [path.basename(target)], 'nothing unfinished is left');
  assert.is((await readdir(path.join(target, 'lib'))).length, FILES + 1);
  assert.is(await readFile(path.join(target, 'lib', '299.so'), 'utf8'), 'library 299');
  assert.is(await readlink(path.join(target, 'lib', 'link.so')), '0.so');
  assert.is((await stat(path.join(target, 'lib', '299.so'))).mode & 0o444, 0o444, 'every account may read it');
}

test('a shared copy is complete when two servers of one process make it at the same time', async () => {
  await Promise.all([ensureSharedCopy(source, target), ensureSharedCopy(source, target)]);
  await expectWholeCopy();
  await ensureSharedCopy(source, target);
  await expectWholeCopy();
});

test('a shared copy is complete when four processes make it at the same time', async () => {
  const program = path.join(home, 'copy.mjs');
  const copier = new URL('./shared-copy.js', import.meta.url).href;
  await writeFile(
    program,
    `import { ensureSharedCopy } from ${JSON.stringify(copier)};
     await ensureSharedCopy(...process.argv.slice(2));`,
  );
  const copiers = Array.from({ length: 4 }, () => fork(program, [source, target], { execArgv: [] }));
  const codes = await Promise.all(copiers.map(async (copier) => (await once(copier, 'close'))[0]));
  assert.equal(codes, [0, 0, 0, 0]);
  await expectWholeCopy();
});

test('a shared copy fails with the error of the copying, leaves no files, and can be retried', async () => {
  const failures = await Promise.all(
    [1, 2].map(() => ensureSharedCopy(path.join(home, 'missing'), target).catch((error) => error.code)),
  );
  assert.equal(failures, ['ENOENT', 'ENOENT']);
  assert.equal(await readdir(path.dirname(target)), []);
  await ensureSharedCopy(source, target);
  await expectWholeCopy();
});

test('an unfinished copy is removed when its process was killed, and stays while it is made', async () => {
  const [abandoned, underWay] = ['abandoned', 'under-way'].map((name) => `${target}.${name}.unfinished`) as [
    string,
    string,
  ];
  for (const folder of [abandoned, underWay]) await mkdir(folder);
  await chmod(abandoned, 0o700);
  const anHourAgo = new Date(Date.now() - 3_600_000);
  await utimes(abandoned, anHourAgo, anHourAgo);
  await ensureSharedCopy(source, target);
  assert.equal(
    (await readdir(path.dirname(target))).sort(),
    [target, underWay].map((each) => path.basename(each)).sort(),
  );
});

test.run();
