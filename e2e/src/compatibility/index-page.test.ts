import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { INDEX, renderIndex } from './index-page.js';

const test = suite('the index of the compatibility pages');
const page = existsSync(INDEX) ? readFileSync(INDEX, 'utf8') : '';

test('the compatibility index has the counts of the pages', () => {
  assert.is(page, renderIndex(), 'npm run generate writes docs/compatibility.md anew');
});

test('the compatibility index links every page, and no page is empty', () => {
  for (const name of readdirSync(new URL('compatibility/', INDEX))) {
    assert.ok(page.includes(`(compatibility/${name})`), `${name} is not linked`);
  }
  const rows = [...page.matchAll(/^\| \[.*\| (\d+) \| (\d+) \| (\d+) \|$/gm)];
  assert.ok(rows.length >= 5, `${rows.length} rows`);
  for (const [row, works] of rows) assert.ok(Number(works) > 10, row);
});

test.run();
