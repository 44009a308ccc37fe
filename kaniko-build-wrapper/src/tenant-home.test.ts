/** Tests the files that the platform writes into a home folder after a hostile clone could write there. */
import { lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { writeHome } from './tenant-home.js';

const home = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
test.after(() => rmSync(home, { recursive: true }));

test('links and folders in place of a tenant’s home files are removed, and targets of links stay unchanged', () => {
  const victim = path.join(home, 'victim');
  writeFileSync(victim, 'of others');
  symlinkSync(victim, path.join(home, '.npmrc'));
  mkdirSync(path.join(home, '.yarnrc.yml/folder'), { recursive: true });
  writeHome(home, { cli: '', folder: '', registry: 'https://registry.example.com/', cafile: undefined }, undefined);
  assert.is(readFileSync(victim, 'utf8'), 'of others');
  for (const name of ['.npmrc', '.yarnrc.yml']) {
    assert.ok(lstatSync(path.join(home, name)).isFile(), name);
    assert.match(readFileSync(path.join(home, name), 'utf8'), /registry\.example\.com/);
  }
});

test.run();
