/** Tests the schema of the platform database, on a real Postgres. */
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import pg from 'pg';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { openPlatformDatabase } from './platform-database.js';

const test = suite<{ postgres: TestPostgres }>('platform database');

test.before(async (context) => {
  context.postgres = await startTestPostgres();
});
test.after(({ postgres }) => postgres.close());

test('the API does not start on a newer release’s schema, and the error names migration, database and fix', async ({
  postgres,
}) => {
  const { host, port, user, password, database } = postgres.admin();
  const url = `postgresql://${user}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
  const log = pino({ level: 'silent' });
  await (await openPlatformDatabase(url, log)).close();
  await (await openPlatformDatabase(url, log)).close();
  const client = new pg.Client(postgres.admin());
  await client.connect();
  await client.query("insert into platform.migrations (name) values ('9999_of_a_newer_release')");
  await client.end();
  const error = await openPlatformDatabase(url, log).then(
    async (orm) => void (await orm.close()),
    (refused: Error) => refused,
  );
  assert.is(
    error?.message,
    `schema platform of the database ${database} has the migration 9999_of_a_newer_release, ` +
      'which this release does not know: ' +
      'run the newer release that wrote it',
  );
});

test.run();
