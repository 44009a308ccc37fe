import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { newSpareId, prepareCluster, SPARE_PREFIX, takeSpare } from '@slipway/project-database';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { adminUrl, silentLog } from '../../testing.js';
import { ClusterSessions } from './cluster-sessions.js';
import { DatabasePrewarmer } from './database-prewarmer.js';

interface Context {
  postgres: TestPostgres;
  sessions: ClusterSessions;
}

/** Milliseconds between sweeps: enough that an assignment has ended by the second sweep after it. */
const SWEEP_MS = 500;

const test = suite<Context>('spare databases');

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.sessions = new ClusterSessions(adminUrl(context.postgres), silentLog);
  await prepareCluster(context.sessions);
});
test.after(async ({ postgres, sessions }) => {
  await sessions.close();
  await postgres.close();
});

test('a sweep drops only databases that a former leader’s late statements left behind', async ({ sessions }) => {
  const count = async (sql: string) => (await sessions.query(sql)).rows.length;
  const ready = () => count(`SELECT FROM pg_database WHERE datname LIKE 'slipway-spare-%'`);
  const prewarmer = new DatabasePrewarmer(sessions, 2, silentLog, SWEEP_MS);
  await prewarmer.start();
  try {
    await until(async () => (await ready()) === 2, 'the spares');
    await sessions.query('CREATE DATABASE "slipway-building-late"');
    for (const role of ['postgres.spare_late', 'authenticator.spare_later'])
      await sessions.query(`CREATE ROLE "${role}"`);
    await until(async () => (await count(`SELECT FROM pg_database WHERE datname LIKE '%late'`)) === 0, 'the database');
    await until(
      async () => (await count(`SELECT FROM pg_roles WHERE rolname LIKE '%.spare\\_late%'`)) === 0,
      'the roles',
    );
    assert.is(await ready(), 2);
    // These databases are made during constant sweeps.
    for (const ref of ['one', 'two']) {
      await takeSpare(sessions, await prewarmer.take(), ref, { owner: 'o', authenticator: 'a', authAdmin: 'x' });
      await until(async () => (await ready()) === 2, 'another in its place');
    }
  } finally {
    await prewarmer.close();
  }
});

test('DatabasePrewarmer keeps no surplus if a former leader made a spare late or an assignment failed', async ({
  sessions,
}) => {
  const ready = async () =>
    (await sessions.query(`SELECT datname FROM pg_database WHERE datname LIKE 'slipway-spare-%' ORDER BY datname`))
      .rows;
  const prewarmer = new DatabasePrewarmer(sessions, 2, silentLog, SWEEP_MS);
  await prewarmer.start();
  try {
    await until(async () => (await ready()).length === 2, 'the spares');
    const before = await ready();
    await sessions.query('CREATE DATABASE late');
    await sessions.query(`ALTER DATABASE late RENAME TO "${SPARE_PREFIX}${newSpareId()}"`);
    await until(async () => (await ready()).length === 2, 'the late spare to be dropped');
    assert.equal(await ready(), before);
    const taken = SPARE_PREFIX + (await prewarmer.take());
    await until(async () => {
      const names = (await ready()).map(({ datname }) => datname);
      return names.length === 2 && !names.includes(taken);
    }, 'a new spare to replace the untaken one, which is dropped');
  } finally {
    await prewarmer.close();
  }
});

test.run();
