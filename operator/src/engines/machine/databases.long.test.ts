import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { databaseOf, ownerRole, REPLICATION_ROLE } from '@slipway/installation';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { adminUrl, silentLog } from '../../testing.js';
import { engineSuite, projectNamed } from '../engine.suite.js';
import { MachineDatabases, SPARES } from './databases.js';
import { MachineServices } from './services.js';

/**
 * Starts a substitute for the data plane, so that the test decides the responses. Project `silent` is unknown to it.
 */
async function startAnswering() {
  const server = createServer((request, response) => {
    response.writeHead(request.url?.startsWith('/p/silent/') ? 404 : 200).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const databasesOn = (
  postgres: TestPostgres,
  replicationPassword: (host: string) => Promise<string> = async () => 'of-the-reader-of-changes',
) =>
  new MachineDatabases({
    adminDatabaseUrl: adminUrl(postgres),
    databasePublicAddress: `127.0.0.1:${postgres.port}`,
    replicationPassword,
    log: silentLog,
  });

const names = async (postgres: TestPostgres, sql: string): Promise<string[]> => {
  const client = new pg.Client(postgres.admin());
  await client.connect();
  const { rows } = await client.query(sql);
  await client.end();
  return rows.map((row) => Object.values(row)[0] as string).sort();
};
const sparesOf = (postgres: TestPostgres) =>
  names(postgres, "SELECT datname FROM pg_database WHERE datname LIKE 'slipway-spare-%'");
const buildingOf = (postgres: TestPostgres) =>
  names(postgres, "SELECT datname FROM pg_database WHERE datname LIKE 'slipway-building-%'");
const spareRolesOf = (postgres: TestPostgres) =>
  names(postgres, "SELECT rolname FROM pg_roles WHERE rolname LIKE '%.spare\\_%'");

let stop = async () => {};
engineSuite(
  'one machine, as every engine',
  async () => {
    const postgres = await startTestPostgres();
    const dataplane = await startAnswering();
    const databases = databasesOn(postgres);
    const projectUrl = (ref: string) => `http://localhost:4000/p/${ref}`;
    const services = new MachineServices({ dataplaneUrl: dataplane.url, projectUrl });
    await databases.start();
    stop = async () => {
      await services.close();
      await databases.close();
      dataplane.close();
      await postgres.close();
    };
    return {
      databases,
      services,
      login: (ref, user, password) => ({ ...postgres.admin(databaseOf(ref)), user, password }),
      leftovers: (ref) =>
        names(
          postgres,
          `SELECT datname FROM pg_database WHERE datname = '${databaseOf(ref)}'
           UNION ALL SELECT rolname FROM pg_roles WHERE rolname LIKE '%.${ref}'`,
        ),
    };
  },
  () => stop(),
);

const test = suite<{ postgres: TestPostgres }>('databases of one machine');
test.before(async (context) => {
  context.postgres = await startTestPostgres();
});
test.after(async ({ postgres }) => {
  await postgres.close();
});

const withDatabases = async (postgres: TestPostgres, work: (databases: MachineDatabases) => Promise<void>) => {
  const databases = databasesOn(postgres);
  try {
    await work(databases);
  } finally {
    await databases.close();
  }
};
const passwords = { owner: 'o', authenticator: 'a', authAdmin: 'x' };
const superuser = async (postgres: TestPostgres, ...statements: string[]) => {
  const client = new pg.Client(postgres.admin());
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
};

test('the number of spare databases stays constant, and spares of an earlier run are reused', async ({ postgres }) => {
  await withDatabases(postgres, async (databases) => {
    await databases.start();
    await until(async () => (await sparesOf(postgres)).length === SPARES, 'the spares');
  });
  const before = await sparesOf(postgres);
  await withDatabases(postgres, async (databases) => {
    await databases.start();
    assert.equal(await sparesOf(postgres), before);
    await databases.ensure({ project: projectNamed('first'), databaseId: 'first', passwords, existed: false });
    await until(async () => {
      const spares = await sparesOf(postgres);
      return spares.length === SPARES && spares.some((spare) => !before.includes(spare));
    }, 'a new spare');
  });
  assert.equal(await buildingOf(postgres), []);
  assert.is((await spareRolesOf(postgres)).length, 3 * SPARES);
});

test('a setting that a tenant puts on a shared role is removed soon, without a restart', async ({ postgres }) => {
  await withDatabases(postgres, async (databases) => {
    await databases.start();
    await superuser(postgres, "ALTER ROLE anon SET statement_timeout = '1ms'");
    const settings = "SELECT rolname FROM pg_db_role_setting JOIN pg_roles r ON r.oid = setrole WHERE rolname = 'anon'";
    await until(async () => (await names(postgres, settings)).length === 0, 'the settings to go');
  });
});

test('a start drops unfinished databases of an earlier run, and spare databases of another version', async ({
  postgres,
}) => {
  await superuser(
    postgres,
    'CREATE ROLE "postgres.spare_0-half"',
    'CREATE DATABASE "slipway-building-0-half" OWNER "postgres.spare_0-half"',
    'CREATE ROLE "authenticator.spare_0-roles-only"',
    'CREATE ROLE "postgres.spare_00000000-old"',
    'CREATE DATABASE "slipway-spare-00000000-old" OWNER "postgres.spare_00000000-old"',
    'CREATE DATABASE "slipway-template-00000000" IS_TEMPLATE true ALLOW_CONNECTIONS false',
  );
  await withDatabases(postgres, async (databases) => {
    await databases.start();
    await until(async () => (await sparesOf(postgres)).length === SPARES, 'the spares');
  });
  const all = await names(postgres, 'SELECT datname FROM pg_database UNION ALL SELECT rolname FROM pg_roles');
  assert.equal(
    all.filter((name) => /0-half|roles-only|00000000/.test(name)),
    [],
  );
});

test('drift of a role’s existence, login, password, limits and rights is repaired and named', async ({ postgres }) => {
  await withDatabases(postgres, async (databases) => {
    const request = { project: projectNamed('drift'), databaseId: 'drift', passwords, existed: false };
    await databases.ensure(request);
    const deleted = 'the role authenticator.drift, which was deleted';
    const access = 'the access to database p-drift, which was changed';
    const owner = 'the role postgres.drift, which was changed';
    const drifts = [
      ['REVOKE ALL ON DATABASE "p-drift" FROM "authenticator.drift"; DROP ROLE "authenticator.drift"', deleted],
      ['ALTER ROLE "postgres.drift" NOLOGIN', owner],
      [`ALTER ROLE "auth_admin.drift" PASSWORD 'other'`, 'the role auth_admin.drift, whose password was another'],
      ['ALTER ROLE "postgres.drift" CONNECTION LIMIT -1 CREATEDB', owner],
      ['REVOKE authenticated FROM "authenticator.drift"', 'the role authenticator.drift, which was changed'],
      [
        'REVOKE pg_use_reserved_connections FROM "authenticator.drift"',
        'the role authenticator.drift, which was changed',
      ],
      ['REVOKE CONNECT ON DATABASE "p-drift" FROM "authenticator.drift"', access],
      ['ALTER DATABASE "p-drift" CONNECTION LIMIT 0', access],
      ['GRANT CONNECT, TEMP ON DATABASE "p-drift" TO PUBLIC, anon, "postgres.first"', access],
      ['ALTER DATABASE "p-drift" ALLOW_CONNECTIONS false', access],
    ] as const;
    for (const [drift, restored] of drifts) {
      await superuser(postgres, drift);
      const asked = { ...request, existed: true };
      assert.equal(await databases.ensure(asked), { state: 'ready', value: undefined, restored: [restored] }, drift);
      assert.equal(await databases.ensure(asked), { state: 'ready', value: undefined });
      for (const [role, password] of [
        ['postgres', 'o'],
        ['authenticator', 'a'],
        ['auth_admin', 'x'],
      ]) {
        const client = new pg.Client({
          ...postgres.admin('p-drift'),
          user: `${role}.drift`,
          password: password as string,
        });
        await client.connect();
        await client.end();
      }
    }
    const [{ acl, limit, createdb } = { acl: '', limit: 0, createdb: true }] = await rowsOf(postgres);
    assert.not.match(acl, /(^|[{,])=|anon=|first/);
    assert.is(limit, 20);
    assert.is(createdb, false);
  });
});

const rowsOf = async (postgres: TestPostgres) => {
  const client = new pg.Client(postgres.admin());
  await client.connect();
  const { rows } = await client.query(`
    SELECT datacl::text AS acl, rolconnlimit AS limit, rolcreatedb AS createdb
    FROM pg_database, pg_roles WHERE datname = 'p-drift' AND rolname = '${ownerRole('drift')}'`);
  await client.end();
  return rows as { acl: string; limit: number; createdb: boolean }[];
};

test('the role that reads changes gets the password for the server’s address at each start', async () => {
  const other = await startTestPostgres();
  const passwordAt = async (host: string) => `of the reader at ${host}`;
  const before = databasesOn(other, async () => 'one for all');
  await before.start();
  await before.ensure({ project: projectNamed('read'), databaseId: 'read', passwords, existed: false });
  await before.close();
  const databases = databasesOn(other, passwordAt);
  await databases.start();
  const { host } = databases.addressOf(projectNamed('any'));
  const login = { ...other.admin('p-read'), user: REPLICATION_ROLE };
  const tell = async (password: string) => {
    const client = new pg.Client({ ...login, password, ...({ replication: 'database' } as object) });
    client.on('error', () => {});
    return client.connect().then(
      () => client.end().then(() => 'in'),
      ({ code }: { code: string }) => code,
    );
  };
  assert.equal([await tell('one for all'), await tell(await passwordAt(host))], ['28P01', 'in']);
  await databases.close();
  await other.close();
});

test('the outcome reports that Postgres is unavailable, and the server works when Postgres is back', async ({
  postgres,
}) => {
  const other = await startTestPostgres();
  const databases = databasesOn(other);
  await databases.start();
  await databases.ensure({ project: projectNamed('before'), databaseId: 'before', passwords, existed: false });
  const client = new pg.Client(other.admin());
  client.on('error', () => {});
  await client.connect();
  await client.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'slipway-operator'`,
  );
  await client.end();
  await until(
    async () =>
      (await databases.ensure({ project: projectNamed('after'), databaseId: 'after', passwords, existed: false }))
        .state === 'ready',
    'the databases to work again',
  );
  await other.stop();
  const outcome = await databases.ensure({
    project: projectNamed('before'),
    databaseId: 'before',
    passwords,
    existed: true,
  });
  assert.is(outcome.state === 'failed' && outcome.reason, 'PostgresUnavailable');
  await databases.close();
  await other.close();
  assert.ok(postgres.port);
});

test.run();
