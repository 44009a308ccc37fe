import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LogFile } from './log-file.js';
import { Program } from './program.js';

test('a program that the system refuses to start is tried again', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  const main = path.join(folder, 'main.mjs');
  writeFileSync(main, `console.log('up'); setInterval(() => {}, 1000);`);
  // More than a system gives to one process: as refused as where memory has run out.
  const environment: Record<string, string> = { LARGE: 'x'.repeat(8 * 2 ** 20) };
  const ends: string[] = [];
  const log = new LogFile(path.join(folder, 'main.log'));
  const isUp = new Promise<void>((resolve) => {
    const write = log._write.bind(log);
    log._write = (chunk, encoding, done) => {
      resolve();
      write(chunk, encoding, done);
    };
  });
  const onEnd = (how: string) => {
    ends.push(how);
    delete environment.LARGE;
  };
  const program = new Program({ name: 'main', main, environment, nodeFlags: [], log, onEnd });
  program.start();
  await isUp;
  assert.equal(ends, ['spawn E2BIG']);
  assert.is(program.failures, 1);
  await program.stop();
  rmSync(folder, { recursive: true });
});

test.run();
