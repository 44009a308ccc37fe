import { startTestPostgres, type TestPostgres } from '@slipway/postgres';
import { prepareCluster } from '@slipway/project-database';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { adminUrl, silentLog, until } from '../../testing.js';
import { ClusterSessions } from './cluster-sessions.js';
import { Spares } from './spares.js';

interface Context {
  postgres: TestPostgres;
  sessions: ClusterSessions;
}

const test = suite<Context>('spares');

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.sessions = new ClusterSessions(adminUrl(context.postgres), silentLog);
  await prepareCluster(context.sessions);
});
test.after(async ({ postgres, sessions }) => {
  await sessions.close();
  await postgres.close();
});

test('what a former leader asked for and Postgres did later is swept away, and nothing else', async ({ sessions }) => {
  const count = async (sql: string) => (await sessions.query(sql)).rows.length;
  const ready = () => count(`SELECT FROM pg_database WHERE datname LIKE 'slipway-spare-%'`);
  const spares = new Spares(sessions, 2, silentLog, 20);
  await spares.start();
  try {
    await until(async () => (await ready()) === 2, 'the spares');
    await sessions.query('CREATE ROLE "postgres.spare_late"');
    await sessions.query('CREATE DATABASE "slipway-building-late" OWNER "postgres.spare_late"');
    await sessions.query('CREATE ROLE "authenticator.spare_later"');
    await until(async () => (await count(`SELECT FROM pg_database WHERE datname LIKE '%late'`)) === 0, 'the database');
    await until(
      async () => (await count(`SELECT FROM pg_roles WHERE rolname LIKE '%.spare\\_late%'`)) === 0,
      'the roles',
    );
    assert.is(await ready(), 2);
    // Made while sweeps go on all the time.
    assert.is.not(await spares.take(), await spares.take());
    await until(async () => (await ready()) === 4, 'others in their place');
  } finally {
    await spares.close();
  }
});

test.run();
