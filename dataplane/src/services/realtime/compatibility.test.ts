import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import { assertRowsNameTests } from '../compatibility.testing.js';

const sources = new URL('../../../src/services/realtime/', import.meta.url);
const page = readFileSync(new URL('../../../../docs/compatibility/realtime.md', import.meta.url), 'utf8');

test('every row of the compatibility page says works, differs or absent, and names an existing test', () =>
  assertRowsNameTests(page, sources, 30));

test.run();
