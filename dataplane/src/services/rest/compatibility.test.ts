import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

const root = new URL('../../../../', import.meta.url);
const page = readFileSync(new URL('docs/compatibility/rest.md', root), 'utf8');
const rows = page
  .split('\n')
  .filter((line) => line.startsWith('| ') && !/^\| (?:---|feature|promise)/.test(line))
  .map(
    (line) =>
      line
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim())
        .slice(1, -1) as [string, string, string],
  );

const test = suite('the page on REST’s compatibility');

test('the compatibility page has a row for each feature, which works, differs or is absent', () => {
  assert.ok(rows.length > 50, `${rows.length} rows`);
  for (const [feature, ours, shown] of rows) {
    assert.match(ours, /^(?:works|differs|absent)\b/, feature);
    assert.match(shown, /^`[\w-]+\.test\.ts`: `[^`]+`$/, feature);
  }
});

test('the compatibility page names existing tests', () => {
  for (const [feature, , shown] of rows) {
    const [, file = '', words = ''] = /^`([\w-]+\.test\.ts)`: `([^`]+)`$/.exec(shown) ?? [];
    const source = readFileSync(new URL(`dataplane/src/services/rest/${file}`, root), 'utf8');
    assert.ok(source.includes(words), `${feature}: ${file} does not say ${words}`);
  }
});

test.run();
