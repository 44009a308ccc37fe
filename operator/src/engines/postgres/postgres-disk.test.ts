/** Tests databases on a server whose volume is almost full. */

import { DATABASE_BYTES } from '@slipway/installation';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  closeFullDatabases,
  type FullDatabases,
  fill,
  smallProject,
  startFullDatabases,
} from './full-database.testing.js';

const test = suite<FullDatabases>('the disk of a Postgres server');

test.before(async (context) => {
  Object.assign(context, await startFullDatabases({ databaseBytes: DATABASE_BYTES, volumeBytes: 700e6 }));
});
test.after(closeFullDatabases);

test('no tenant can write while only the reserve of the disk is free, and all can afterwards', async (context) => {
  const { full, superuser } = context;
  const [greedy, modest] = [await smallProject(context, 'greedy'), await smallProject(context, 'modest')];
  await (await greedy.login('owner')).query('create table rows (t text)');
  await (await modest.login('owner')).query('create table rows (t text)');
  await (await greedy.login('owner')).query(fill(400)).catch(() => {});
  const told = () => full.map((message) => message.split(':')[0]).sort();
  await until(() => told().join() === 'greedy,modest', 'both to be told');
  assert.match(full.join(), /The disk of the Postgres server is almost full: the database is read-only until/);
  const code = async () => {
    const client = await modest.login('owner');
    const outcome = await client.query(fill(1)).then(
      () => 'done',
      (error: { code: string }) => error.code,
    );
    await client.end();
    return outcome;
  };
  assert.is(await code(), '25006');
  await superuser.query('create table own as select 1');
  const owner = await greedy.login('owner');
  await owner.query('set default_transaction_read_only = off');
  await owner.query('truncate rows');
  await superuser.query('checkpoint');
  await until(async () => (await code()) === 'done', 'the neighbour to write again');
});

test.run();
