/** Tests schemas of a project's database that a newer release migrated, on a real Postgres. */
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { migrateAuth } from './migrate-auth.js';
import { migrateRealtime } from './realtime/index.js';
import type { Session } from './session.js';
import { migrateStorage } from './storage/index.js';
import { startTestProjects, type TestProjects } from './testing.js';

const test = suite<{ projects: TestProjects; admin: pg.Client }>('a schema of a newer release');

test.before(async (context) => {
  context.projects = await startTestProjects();
  await context.projects.create('newer');
  context.admin = new pg.Client(context.projects.postgres.admin('p-newer'));
  await context.admin.connect();
});
test.after(async ({ projects, admin }) => {
  await admin.end();
  await projects.close();
});

const MIGRATES: [string, (session: Session) => Promise<void>][] = [
  ['auth', migrateAuth],
  ['realtime', migrateRealtime],
  ['storage', migrateStorage],
];

for (const [schema, migrate] of MIGRATES) {
  test(`the ${schema} migrations reject an unknown migration of Slipway, and ignore those of other tools`, async ({
    admin,
  }) => {
    const versions = `${schema}.schema_migrations`;
    await admin.query(`RESET ROLE; INSERT INTO ${versions} (version) VALUES ('20171026211738')`);
    await migrate(admin);
    await admin.query(`RESET ROLE; INSERT INTO ${versions} (version) VALUES ('slipway-9999-newer')`);
    const error = await migrate(admin).then(
      () => undefined,
      (refused: Error) => refused,
    );
    assert.is(
      error?.message,
      `schema ${schema} of the database p-newer has the migration slipway-9999-newer, ` +
        'which this release does not know: run the newer release that wrote it',
    );
    await admin.query(`RESET ROLE; DELETE FROM ${versions} WHERE version = 'slipway-9999-newer'`);
    await migrate(admin);
  });
}

test.run();
