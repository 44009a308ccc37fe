/** Checks that each row of the compatibility page that says "works" names an existing test. */
import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const ROOT = new URL('../../../../', import.meta.url);
const read = (file: string) => readFileSync(new URL(file, ROOT), 'utf8');
const SOURCES = ['dataplane/src/services/functions/functions.test.ts', 'api/src/mcp/mcp.test.ts'];

test('each feature that docs/compatibility/functions.md says works names an existing test', () => {
  const tests = SOURCES.map(read)
    .join('\n')
    .matchAll(/test\(\s*[`'](.+?)[`'],/g);
  const names = new Set(
    [...tests].flatMap(([, name = '']) => ['legacy', 'modern'].map((era) => name.replace(/\$\{era\}/, era))),
  );
  const rows = read('docs/compatibility/functions.md')
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .filter((cells) => ['works', 'differs', 'absent'].includes(cells[2] ?? ''));
  assert.ok(rows.length > 15);
  for (const [, feature, here, how = ''] of rows) {
    const named = /`([^`]+)`$/.exec(how)?.[1];
    if (here === 'works')
      assert.ok(named !== undefined && names.has(named), `${feature}: no test is called "${named}"`);
  }
});

test.run();
