import { closeSync, fstatSync, openSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LogFile } from './log-file.js';

test('a log file keeps its newest lines and never exceeds its size limit', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  try {
    const log = new LogFile(path.join(folder, 'x.log'), 1000);
    for (let n = 0; n < 1000; n++) log.write(`line ${n}\n`);
    log.end();
    await finished(log);
    const files = (await readdir(folder)).sort();
    assert.equal(files, ['x.log', 'x.log.1', 'x.log.2']);
    for (const file of files) assert.ok((await stat(path.join(folder, file))).size <= 1000);
    assert.match(await readFile(path.join(folder, 'x.log'), 'utf8'), /line 999\n$/);
    assert.is((await stat(path.join(folder, 'x.log'))).mode & 0o777, 0o600);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('a log file stays open when its folder is removed', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  const log = new LogFile(path.join(folder, 'x.log'), 100);
  log.write('x'.repeat(90));
  await rm(folder, { recursive: true });
  log.write('y'.repeat(90));
  // If the log had closed its descriptor, this file would get the same number.
  const other = openSync('/dev/null', 'r');
  log.write('z'.repeat(90));
  fstatSync(other);
  closeSync(other);
  log.end();
  await finished(log);
});

test('a log file that can’t be written loses only its lines, and the program continues', async () => {
  const log = new LogFile('/dev/full');
  log.write('a line that finds no room\n');
  log.end();
  await finished(log);
  assert.is(log.lastWords(), 'a line that finds no room');
});

test('the last words of a program are the message of an uncaught error or of a log line', async () => {
  const words = async (text: string) => {
    const log = new LogFile('/dev/null');
    log.end(text);
    await finished(log);
    return log.lastWords();
  };
  assert.is(
    await words('throw it\nError: SLIPWAY_LISTEN is not set\n    at main\n\nNode.js v24\n'),
    'Error: SLIPWAY_LISTEN is not set',
  );
  assert.is(
    await words('{"level":30,"msg":"up"}\n{"level":60,"msg":"no \\"database\\""}\n{"level":30,"msg":"bye"}\n'),
    'no \\"database\\"',
  );
  assert.is(await words('something\nelse\n'), 'else');
});

test.run();
