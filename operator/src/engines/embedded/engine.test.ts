import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { databaseOf, ownerRole, REPLICATION_ROLE } from '@slipway/crds';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { adminUrl, silentLog, until } from '../../testing.js';
import { engineSuite, projectNamed } from '../engine.suite.js';
import { EmbeddedEngine, SPARES } from './engine.js';

/** In the data plane's place, so that what it answers is in the test's hand: project `silent` is not known to it. */
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

function engineOn(
  postgres: TestPostgres,
  dataplaneUrl: string,
  replicationPassword: (host: string) => Promise<string> = async () => 'of-the-reader-of-changes',
): EmbeddedEngine {
  return new EmbeddedEngine({
    adminDatabaseUrl: adminUrl(postgres),
    databasePublicAddress: `127.0.0.1:${postgres.port}`,
    dataplaneUrl,
    projectUrl: (ref) => `http://localhost:4000/p/${ref}`,
    replicationPassword,
    log: silentLog,
  });
}

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
  'embedded engine, as every engine',
  async () => {
    const postgres = await startTestPostgres();
    const dataplane = await startAnswering();
    const engine = engineOn(postgres, dataplane.url);
    await engine.start();
    stop = async () => {
      await engine.close();
      dataplane.close();
      await postgres.close();
    };
    return {
      engine,
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

const test = suite<{ postgres: TestPostgres }>('embedded engine');
test.before(async (context) => {
  context.postgres = await startTestPostgres();
});
test.after(async ({ postgres }) => {
  await postgres.close();
});

const withEngine = async (postgres: TestPostgres, work: (engine: EmbeddedEngine) => Promise<void>) => {
  const engine = engineOn(postgres, 'http://127.0.0.1:9');
  try {
    await work(engine);
  } finally {
    await engine.close();
  }
};
const passwords = { owner: 'o', authenticator: 'a', authAdmin: 'x' };
const superuser = async (postgres: TestPostgres, ...statements: string[]) => {
  const client = new pg.Client(postgres.admin());
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
};

test('spares are kept in number, and those of an earlier run are used on', async ({ postgres }) => {
  await withEngine(postgres, async (engine) => {
    await engine.start();
    await until(async () => (await sparesOf(postgres)).length === SPARES, 'the spares');
  });
  const before = await sparesOf(postgres);
  await withEngine(postgres, async (engine) => {
    await engine.start();
    assert.equal(await sparesOf(postgres), before);
    await engine.ensureDatabase({ project: projectNamed('first'), databaseId: 'first', passwords, existed: false });
    await until(async () => {
      const spares = await sparesOf(postgres);
      return spares.length === SPARES && spares.some((spare) => !before.includes(spare));
    }, 'a new spare');
  });
  assert.equal(await buildingOf(postgres), []);
  assert.is((await spareRolesOf(postgres)).length, 3 * SPARES);
});

test('settings that a tenant puts on a role that all share are gone soon, without a start', async ({ postgres }) => {
  await withEngine(postgres, async (engine) => {
    await engine.start();
    await superuser(postgres, "ALTER ROLE anon SET statement_timeout = '1ms'");
    const settings = "SELECT rolname FROM pg_db_role_setting JOIN pg_roles r ON r.oid = setrole WHERE rolname = 'anon'";
    await until(async () => (await names(postgres, settings)).length === 0, 'the settings to go');
  });
});

test('what an earlier run left half made is dropped at the next start, and a spare of another version too', async ({
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
  await withEngine(postgres, async (engine) => {
    await engine.start();
    await until(async () => (await sparesOf(postgres)).length === SPARES, 'the spares');
  });
  const all = await names(postgres, 'SELECT datname FROM pg_database UNION ALL SELECT rolname FROM pg_roles');
  assert.equal(
    all.filter((name) => /0-half|roles-only|00000000/.test(name)),
    [],
  );
});

test('what has drifted is put right, and named: a lost role, a locked one, another password, limits, strangers let in', async ({
  postgres,
}) => {
  await withEngine(postgres, async (engine) => {
    const request = { project: projectNamed('drift'), databaseId: 'drift', passwords, existed: false };
    await engine.ensureDatabase(request);
    const deleted = 'the role authenticator.drift, which was deleted';
    const access = 'the access to database p-drift, which was changed';
    const owner = 'the role postgres.drift, which was changed';
    const drifts = [
      ['REVOKE ALL ON DATABASE "p-drift" FROM "authenticator.drift"; DROP ROLE "authenticator.drift"', deleted],
      ['ALTER ROLE "postgres.drift" NOLOGIN', owner],
      [`ALTER ROLE "auth_admin.drift" PASSWORD 'other'`, 'the role auth_admin.drift, whose password was another'],
      ['ALTER ROLE "postgres.drift" CONNECTION LIMIT -1 CREATEDB', owner],
      ['REVOKE authenticated FROM "authenticator.drift"', 'the role authenticator.drift, which was changed'],
      ['REVOKE CONNECT ON DATABASE "p-drift" FROM "authenticator.drift"', access],
      ['ALTER DATABASE "p-drift" CONNECTION LIMIT 0', access],
      ['GRANT CONNECT, TEMP ON DATABASE "p-drift" TO PUBLIC, anon, "postgres.first"', access],
      ['ALTER DATABASE "p-drift" ALLOW_CONNECTIONS false', access],
    ] as const;
    for (const [drift, restored] of drifts) {
      await superuser(postgres, drift);
      const asked = { ...request, existed: true };
      assert.equal(
        await engine.ensureDatabase(asked),
        { state: 'ready', value: undefined, restored: [restored] },
        drift,
      );
      assert.equal(await engine.ensureDatabase(asked), { state: 'ready', value: undefined });
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

test('at its start the reader of changes is given the password of this very address, whatever it had before', async () => {
  const other = await startTestPostgres();
  const passwordAt = async (host: string) => `of the reader at ${host}`;
  const before = engineOn(other, 'http://127.0.0.1:9', async () => 'one for all');
  await before.start();
  await before.ensureDatabase({ project: projectNamed('read'), databaseId: 'read', passwords, existed: false });
  await before.close();
  const engine = engineOn(other, 'http://127.0.0.1:9', passwordAt);
  await engine.start();
  const { host } = engine.databaseAddress();
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
  await engine.close();
  await other.close();
});

test('while Postgres is away the outcome says so, and when it is back the same engine goes on', async ({
  postgres,
}) => {
  const other = await startTestPostgres();
  const engine = engineOn(other, 'http://127.0.0.1:9');
  await engine.start();
  await engine.ensureDatabase({ project: projectNamed('before'), databaseId: 'before', passwords, existed: false });
  const client = new pg.Client(other.admin());
  client.on('error', () => {});
  await client.connect();
  await client.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'slipway-operator'`,
  );
  await client.end();
  await until(
    async () =>
      (await engine.ensureDatabase({ project: projectNamed('after'), databaseId: 'after', passwords, existed: false }))
        .state === 'ready',
    'the engine to go on',
  );
  await other.stop();
  const outcome = await engine.ensureDatabase({
    project: projectNamed('before'),
    databaseId: 'before',
    passwords,
    existed: true,
  });
  assert.is(outcome.state === 'failed' && outcome.reason, 'PostgresUnavailable');
  await engine.close();
  await other.close();
  assert.ok(postgres.port);
});

test.run();
