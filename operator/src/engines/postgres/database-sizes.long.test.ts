/** Tests clients that reconnect and insert into a full database for a minute. */

import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  closeFullDatabases,
  type FullDatabases,
  fill,
  smallProject,
  startFullDatabases,
  writeOn,
} from './full-database.testing.js';

const test = suite<FullDatabases>('a minute of writes to a full database');
const CLIENTS = 4;

test.before(async (context) => {
  Object.assign(context, await startFullDatabases());
});
test.after(closeFullDatabases);

test('four clients that reconnect and insert for 60 s add at most 64 MB', async (context) => {
  const project = await smallProject(context, 'large');
  const owner = await project.login('owner');
  await owner.query('create table rows (t text)');
  // The session is ended if a look finds the database full during the statement.
  await owner.query(fill(60)).catch((error: { code?: string }) => assert.is(error.code, '57P01'));
  await until(() => context.full.length > 0, 'the database to be full');
  const before = await project.size();
  const end = Date.now() + 60_000;
  await Promise.all(Array.from({ length: CLIENTS }, () => writeOn(project, () => Date.now() > end)));
  const grown = (await project.size()) - before;
  process.stdout.write(`grown by ${Math.round(grown / 1e6)} MB in 60 s\n`);
  assert.ok(grown <= 64e6, `it grew by ${grown}`);
});

test.run();
