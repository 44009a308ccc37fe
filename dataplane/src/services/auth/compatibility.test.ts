import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { assertRowsNameTests } from '../compatibility.testing.js';

const sources = new URL('../../../src/services/auth/', import.meta.url);
const page = readFileSync(new URL('../../../../docs/compatibility/auth.md', import.meta.url), 'utf8');

test('every row of the compatibility page says works, differs or absent, and names an existing test', () =>
  assertRowsNameTests(page, sources, 50));

test('docs/auth.md has every setting that auth reads', () => {
  const docs = readFileSync(new URL('../../../../docs/auth.md', import.meta.url), 'utf8');
  const config = readFileSync(new URL('policy/config.ts', sources), 'utf8');
  const names = [...config.matchAll(/reader\.(?:read|optional)\('([A-Z0-9_]+)'/g)].map(([, name]) => `GOTRUE_${name}`);
  assert.ok(names.length > 40);
  for (const name of names) assert.ok(docs.includes(`\`${name}\``), `${name} is not in docs/auth.md`);
});

test.run();
