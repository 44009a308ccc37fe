import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { ownRecord, prepareRegistry } from '@slipway/project-database';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { adminUrl, silentLog } from '../../testing.js';
import { ClusterSessions } from './cluster-sessions.js';
import { DatabaseChanges } from './database-changes.js';

interface Context {
  postgres: TestPostgres;
  sessions: ClusterSessions;
}

const test = suite<Context>('changes of databases');

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.sessions = new ClusterSessions(adminUrl(context.postgres), silentLog);
  await prepareRegistry(context.sessions);
  await context.sessions.query('CREATE ROLE a_group');
  await context.sessions.query(ownRecord('named', 'db_opaque'));
  for (const ref of ['shop', 'other', 'spare_1', 'db_opaque']) {
    for (const kind of ['postgres', 'authenticator', 'auth_admin']) {
      await context.sessions.query(`CREATE ROLE "${kind}.${ref}" LOGIN PASSWORD 'first'`);
    }
    await context.sessions.query(`CREATE DATABASE "p-${ref}"`);
  }
});
test.after(async ({ postgres, sessions }) => {
  await sessions.close();
  await postgres.close();
});

const CHANGES = [
  'ALTER ROLE "authenticator.shop" NOLOGIN',
  'ALTER ROLE "authenticator.shop" BYPASSRLS',
  `ALTER ROLE "postgres.shop" PASSWORD 'second'`,
  `ALTER ROLE "postgres.shop" VALID UNTIL '2001-01-01'`,
  'GRANT a_group TO "postgres.shop"',
  'REVOKE a_group FROM "postgres.shop"',
  'REVOKE CONNECT ON DATABASE "p-shop" FROM PUBLIC',
  'ALTER DATABASE "p-shop" ALLOW_CONNECTIONS false',
  'DROP ROLE "auth_admin.shop"',
  'DROP DATABASE "p-shop"',
];

test('a change of a project’s roles or of its CONNECT privileges is reported only for that project', async ({
  sessions,
}) => {
  const told: string[] = [];
  const looks: string[] = [];
  const counted = {
    query: (sql: string) => {
      looks.push(sql);
      return sessions.query(sql);
    },
  } as ClusterSessions;
  const changes = new DatabaseChanges(counted, (ref) => told.push(ref), silentLog, 5);
  changes.start();
  await until(() => looks.length > 2, 'the first looks');
  assert.equal(told, []);
  for (const [index, change] of CHANGES.entries()) {
    await sessions.query(change);
    await until(() => told.length > index, change);
  }
  await sessions.query('ALTER ROLE "postgres.spare_1" NOLOGIN');
  const seen = looks.length;
  await until(() => looks.length > seen + 2, 'more looks');
  changes.close();
  assert.equal([...new Set(told)], ['shop']);
  changes.close();
});

test('a change of a role with an opaque name is reported for the project that has it', async ({ sessions }) => {
  const told: string[] = [];
  const changes = new DatabaseChanges(sessions, (ref) => told.push(ref), silentLog, 5);
  changes.start();
  let limit = 1;
  await until(async () => {
    await sessions.query(`ALTER ROLE "postgres.db_opaque" CONNECTION LIMIT ${limit++}`);
    return told.length > 0;
  }, 'the change');
  assert.equal([...new Set(told)], ['named']);
});

test.run();
