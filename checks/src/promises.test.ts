/** Checks that each promise of SECURITY.md names an attack and tests that exist. */
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../../', import.meta.url));
const HEAD = ['to', 'promise', 'attack', 'tests'];

const cellsOf = (row: string) => row.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, '').trim());

function promises(): string[][] {
  const lines = readFileSync(path.join(root, 'SECURITY.md'), 'utf8').split('\n');
  const head = lines.indexOf(`| ${HEAD.join(' | ')} |`);
  const end = lines.findIndex((line, at) => at > head && !line.startsWith('|'));
  return lines.slice(head + 2, end).map(cellsOf);
}

/** True for a test file, and for a folder with tests in it. */
const hasTests = (place: string) =>
  [place, `${place}/**/*.test.ts`].some((pattern) =>
    globSync(pattern, { cwd: root }).some((file) => /\.(test|suite)\.ts$/.test(file)),
  );

test('each promise names an attack and existing tests', () => {
  const rows = promises();
  assert.ok(rows.length > 10);
  for (const cells of rows) {
    assert.is(cells.length, HEAD.length, cells.join(' | '));
    const [, promise = '', attack = '', tests = ''] = cells;
    assert.ok(attack.length > 10, `no attack tries: ${promise}`);
    const named = [...tests.matchAll(/`([^`]+)`/g)].map(([, place]) => place as string);
    assert.ok(named.length > 0, `no test of: ${promise}`);
    for (const place of named) assert.ok(hasTests(place), `${place} has no tests`);
  }
});

test.run();
