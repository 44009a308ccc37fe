import { authAdminRole, authenticatorRole, ownerRole } from '@slipway/installation';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { prepareCluster } from './cluster.js';
import { startTestProjects, type TestProjects } from './testing.js';

const test = suite<{ projects: TestProjects }>('reserved connections');

test.before(async (context) => {
  context.projects = await startTestProjects();
  await context.projects.create('first');
});
test.after(async ({ projects }) => {
  await projects.close();
});

async function usersOfReserved({ admin }: TestProjects): Promise<string[]> {
  const { rows } = await admin.query(`SELECT rolname FROM pg_roles WHERE NOT rolsuper
    AND pg_has_role(oid, 'pg_use_reserved_connections', 'USAGE')
    AND rolname <> 'pg_use_reserved_connections' ORDER BY 1`);
  return rows.map(({ rolname }) => rolname);
}

const services = [authAdminRole('first'), authenticatorRole('first')];

test('the roles of services can use reserved connections, and the owner can’t', async ({ projects }) => {
  assert.equal(await usersOfReserved(projects), services);
});

test('a start grants reserved connections to earlier releases’ service roles, and to no other role', async ({
  projects,
}) => {
  await projects.admin.query(
    `REVOKE pg_use_reserved_connections FROM ${services.map((name) => `"${name}"`).join(', ')}`,
  );
  await projects.admin
    .query('CREATE ROLE "authenticator"; CREATE ROLE "my.authenticator.first"')
    .catch(() => undefined);
  await prepareCluster(projects.admin);
  assert.equal(await usersOfReserved(projects), services);
});

test('no role of a project can grant reserved connections, or become a role with them', async ({ projects }) => {
  for (const part of ['owner', 'authenticator', 'authAdmin'] as const) {
    const session = await projects.login('first', part);
    for (const attack of [
      `GRANT pg_use_reserved_connections TO "${ownerRole('first')}"`,
      `GRANT "${authenticatorRole('first')}" TO "${ownerRole('first')}"`,
      'SET ROLE pg_use_reserved_connections',
    ]) {
      const error = await session.query(attack).catch((caught) => caught);
      assert.is(error.code, '42501', `${attack} as ${part}`);
    }
    await session.end();
  }
  assert.equal(await usersOfReserved(projects), services);
});

test.run();
