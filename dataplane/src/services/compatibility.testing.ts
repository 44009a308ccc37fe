/** Checks of a compatibility page for tests: each row must name an existing test. */
import { readFileSync } from 'node:fs';
import * as assert from 'uvu/assert';

/** Checks the page. In: its text, the folder of the test sources, and the minimum number of rows. */
export function assertRowsNameTests(page: string, sources: URL, fewest: number): void {
  const rows = page
    .split('\n')
    .filter((line) => line.startsWith('| ') && !/^\| (feature|---)/.test(line))
    .map((line) => line.slice(2, -2).split(' | '));
  assert.ok(rows.length > fewest, `${rows.length} rows`);
  for (const [feature, ours, named] of rows) {
    assert.match(ours as string, /^(works|differs:|absent)/, feature);
    const [, file, title] = /^`([\w./-]+\.test\.ts)`: (.+)$/.exec(named as string) ?? [];
    assert.ok(file && title, `${feature}: no test is named`);
    assert.ok(
      titlesIn(new URL(file as string, sources)).has(title as string),
      `${feature}: ${file} has no test ${JSON.stringify(title)}`,
    );
  }
}

const known = new Map<string, Set<string>>();

function titlesIn(file: URL): Set<string> {
  const titles = known.get(file.href) ?? new Set(titlesOf(readFileSync(file, 'utf8')));
  known.set(file.href, titles);
  return titles;
}

const titlesOf = (source: string) =>
  [...source.matchAll(/\btest\(\s*(['"`])(.*?)\1,/g)].map(([, , title = '']) => title.replaceAll("\\'", "'"));
