import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import { assertRowsNameTests } from '../compatibility.testing.js';

const sources = new URL('../../../src/services/auth/', import.meta.url);
const page = readFileSync(new URL('../../../../docs/compatibility/auth.md', import.meta.url), 'utf8');

test('every row of the compatibility page says works, differs or absent, and names an existing test', () =>
  assertRowsNameTests(page, sources, 50));

test.run();
