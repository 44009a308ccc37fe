/** Tests the migrations of the API server's tables, on a real Postgres. */
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { migrate } from './migrations.js';

const test = suite<{ postgres: TestPostgres; client: pg.Client }>('tables of the API server');

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.client = new pg.Client(context.postgres.admin());
  await context.client.connect();
});
test.after(async ({ postgres, client }) => {
  await client.end();
  await postgres.close();
});

test('a server does not start on a newer release’s schema, and the error names migration, database and fix', async ({
  client,
}) => {
  await migrate(client);
  await migrate(client);
  await client.query('INSERT INTO kube.migrations (version) VALUES (99)');
  const error = await migrate(client).then(
    () => undefined,
    (refused: Error) => refused,
  );
  const { rows } = await client.query('SELECT current_database() AS name');
  assert.is(
    error?.message,
    `schema kube of the database ${rows[0].name} has migration 99, and this release knows migrations up to 1: ` +
      'run the newer release that wrote it',
  );
});

test.run();
