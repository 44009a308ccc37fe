import { readFile } from 'node:fs/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { withSettingsTable } from './settings-table.js';

test('docs/cluster.md has a row for each of a site’s settings, with its default and meaning', async () => {
  const page = await readFile(new URL('../../docs/cluster.md', import.meta.url), 'utf8');
  assert.is(page, withSettingsTable(page), 'stale: run `npm run generate`');
  assert.match(page, /`plans\.<plan>\.database\.storage` \| `10Gi` \|/);
});

test.run();
