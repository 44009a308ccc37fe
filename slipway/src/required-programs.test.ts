import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { StartProblem } from './problem.js';
import { expectPrograms } from './required-programs.js';

const refusalOf = (find: () => Promise<string>) =>
  expectPrograms([{ name: 'Deno', find }]).then(
    () => undefined,
    (error: Error) => error,
  );

test('the programs that npm installed run on this machine', async () => {
  await expectPrograms();
});

test('a missing program is reported with the command that installs it', async () => {
  const refusal = await refusalOf(async () => {
    throw new Error('there is no Deno for plan9 on x64 (@deno/plan9-x64 is not installed)');
  });
  assert.instance(refusal, StartProblem);
  assert.match(refusal?.message ?? '', /^there is no Deno for plan9 .*: run "npm ci --ignore-scripts" in /);
});

test('a program that does not run is reported with its output', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  const file = path.join(folder, 'deno');
  await writeFile(file, '#!/bin/sh\necho "libgcc_s.so.1: no such file" >&2\nexit 127\n');
  await chmod(file, 0o755);
  const refusal = await refusalOf(async () => file);
  await rm(folder, { recursive: true });
  assert.is(
    refusal?.message,
    'Deno does not run on this machine (libgcc_s.so.1: no such file): it needs Linux with glibc, or macOS',
  );
});

test.run();
