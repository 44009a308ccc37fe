import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isConnectionLoss } from './problem-filter.js';

let postgres: TestPostgres;

test.before(async () => {
  postgres = await startTestPostgres();
});
test.after(() => postgres?.close());

async function failureOf(work: (client: pg.Client, end: () => Promise<void>) => Promise<unknown>): Promise<unknown> {
  const [client, other] = [new pg.Client(postgres.admin()), new pg.Client(postgres.admin())];
  client.on('error', () => {});
  await Promise.all([client.connect(), other.connect()]);
  const { rows } = await client.query('select pg_backend_pid() as pid');
  const end = async () => {
    const ended = new Promise((resolve) => client.once('end', resolve));
    await other.query('select pg_terminate_backend($1)', [rows[0].pid]);
    await ended;
  };
  try {
    await work(client, end);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    await Promise.all([other.end(), client.end().catch(() => {})]);
  }
}

test('a connection lost during a statement or a transaction is reported as an unavailable database', async () => {
  const inStatement = await failureOf((client, end) => Promise.all([client.query('select pg_sleep(60)'), end()]));
  const between = await failureOf(async (client, end) => {
    await client.query('begin');
    await end();
    await client.query('select 1');
  });
  assert.instance(inStatement, Error);
  assert.instance(between, Error);
  assert.ok(isConnectionLoss(inStatement), (inStatement as Error).message);
  assert.ok(isConnectionLoss(between), (between as Error).message);
});

test('an error that the database returns is not reported as unavailable', async () => {
  assert.not.ok(isConnectionLoss(await failureOf((client) => client.query('select 1/0'))));
});

test.run();
