import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const sources = new URL('../../src/storage/', import.meta.url);
const page = readFileSync(new URL('../../../docs/compatibility/storage.md', import.meta.url), 'utf8');
const rows = page
  .split('\n')
  .filter((line) => line.startsWith('| ') && !/^\| (feature|---)/.test(line))
  .map((line) => line.slice(2, -2).split(' | '));

const titles = new Map<string, Set<string>>();
function titlesOf(file: string): Set<string> {
  let known = titles.get(file);
  if (known === undefined) {
    const source = readFileSync(new URL(file, sources), 'utf8');
    known = new Set(
      [...source.matchAll(/\btest\(\s*(['"`])(.*?)\1,/g)].map(([, , title]) =>
        (title as string).replaceAll("\\'", "'"),
      ),
    );
    titles.set(file, known);
  }
  return known;
}

test('every row of the compatibility page says works, differs or absent, and names a test that is there', () => {
  assert.ok(rows.length > 25);
  for (const [feature, ours, named] of rows) {
    assert.match(ours as string, /^(works|differs:|absent)/, feature);
    const [, file, title] = /^`([\w/-]+\.test\.ts)`: (.+)$/.exec(named as string) ?? [];
    assert.ok(file && title, `${feature}: no test is named`);
    assert.ok(
      titlesOf(file as string).has(title as string),
      `${feature}: ${file} has no test ${JSON.stringify(title)}`,
    );
  }
});

test.run();
