import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { inOneLine, StartProblem } from './problem.js';

const HOME = '/srv/slipway';
const systemError = (code: string, members: Partial<NodeJS.ErrnoException> & { dest?: string }) =>
  Object.assign(new Error(`${code}: of the system, ${members.syscall}`), { code, ...members });

for (const [code, syscall, place, expected] of [
  ['EACCES', 'mkdir', HOME, /^may not write at \/srv\/slipway: set SLIPWAY_HOME to /],
  ['ENOENT', 'mkdir', '/srv', /^there can be no folder at \/srv: set SLIPWAY_HOME to /],
  ['EEXIST', 'mkdir', `${HOME}/postgres`, /^there is a file where a folder should be at .*postgres: set SLIPWAY_HOME/],
  ['ENOSPC', 'write', `${HOME}/logs`, /^the disk is full at .*logs: free some space, or set SLIPWAY_HOME/],
] as const) {
  test(`an error names SLIPWAY_HOME as its remedy when ${syscall} in it fails with ${code}`, () => {
    assert.match(inOneLine(systemError(code, { syscall, path: place }), HOME), expected);
  });
}

for (const [code, members] of [
  ['EEXIST', { syscall: 'copyfile', path: '/opt/a', dest: '/var/lib/slipway/postgres-18' }],
  ['ENOENT', { syscall: 'open', path: '/opt/pg-symlinks.json' }],
  ['ENOTEMPTY', { syscall: 'rename', path: '/var/lib/slipway/a', dest: '/var/lib/slipway/b' }],
  ['EACCES', { syscall: 'open', path: '/srv/slipway-of-others' }],
  ['ENOENT', { syscall: 'open', path: `${HOME}/tls/server.crt` }],
  ['ENOENT', { syscall: 'spawn initdb', path: '/opt/initdb' }],
] as const) {
  test(`an error keeps its message when ${members.syscall} of ${members.path} fails with ${code}`, () => {
    const error = systemError(code, members);
    assert.is(inOneLine(error, HOME), error.message);
  });
}

test('the message of a full disk outside of the home suggests no other SLIPWAY_HOME', () => {
  const error = systemError('ENOSPC', { syscall: 'write', path: '/var/lib/slipway/data-1' });
  assert.is(inOneLine(error, HOME), 'the disk is full at /var/lib/slipway/data-1: free some space');
  assert.match(inOneLine(new Error('initdb failed: No space left on device'), HOME), /^the disk is full: free some/);
});

test('an error of a home behind a link names SLIPWAY_HOME', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  const [real, link] = ['real', 'link'].map((name) => path.join(folder, name)) as [string, string];
  await mkdir(real);
  await symlink(real, link);
  await writeFile(path.join(real, 'logs'), '');
  const error = await readFile(path.join(real, 'logs', 'api.log')).catch((caught) => caught);
  assert.match(inOneLine(error, link), /^there is a file where a folder should be at .*: set SLIPWAY_HOME/);
  await rm(folder, { recursive: true });
});

test('the message of a start problem becomes one line', () => {
  assert.is(inOneLine(new StartProblem('the port is taken\nend it'), HOME), 'the port is taken; end it');
});

test.run();
