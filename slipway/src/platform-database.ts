/**
 * The platform's database and the login roles of its programs. In: a superuser's connection. Run at each start: it makes what
 * is missing and leaves the rest.
 */
import { REPLICATION_ROLE } from '@slipway/crds';
import pg from 'pg';

export const PLATFORM_DATABASE = 'slipway';
export const PLATFORM_ROLES = {
  apiserver: { role: 'slipway_apiserver', schema: 'kube', connections: 40 },
  api: { role: 'slipway_api', schema: 'platform', connections: 40 },
} as const;

export interface PlatformPasswords {
  apiserver: string;
  api: string;
}

/** Who may log in from where: the platform's own roles and database only over the Unix socket, and nobody without a password. */
export const ACCESS_RULES = `
local all all scram-sha-256
host all slipway,${PLATFORM_ROLES.apiserver.role},${PLATFORM_ROLES.api.role},${REPLICATION_ROLE} all reject
host ${PLATFORM_DATABASE},postgres,template0,template1 all all reject
host all all all scram-sha-256
`;

export async function preparePlatformDatabase(admin: pg.ClientConfig, passwords: PlatformPasswords): Promise<void> {
  await withClient({ ...admin, database: 'postgres' }, async (client) => {
    for (const name of ['apiserver', 'api'] as const) {
      await prepareRole(client, PLATFORM_ROLES[name], passwords[name]);
    }
    const { rowCount } = await client.query('select from pg_database where datname = $1', [PLATFORM_DATABASE]);
    if (rowCount === 0) await client.query(`create database ${PLATFORM_DATABASE}`);
    for (const database of [PLATFORM_DATABASE, 'postgres', 'template1']) {
      await client.query(`revoke all on database ${database} from public`);
    }
  });
  await withClient({ ...admin, database: PLATFORM_DATABASE }, async (client) => {
    await client.query('revoke all on schema public from public');
    for (const { role, schema } of Object.values(PLATFORM_ROLES)) {
      await client.query(`create schema if not exists ${schema} authorization ${role}`);
      await client.query(`grant connect on database ${PLATFORM_DATABASE} to ${role}`);
      await client.query(`alter role ${role} in database ${PLATFORM_DATABASE} set search_path = ${schema}`);
    }
  });
}

async function prepareRole(
  client: pg.Client,
  { role, connections }: { role: string; connections: number },
  password: string,
): Promise<void> {
  const { rowCount } = await client.query('select from pg_roles where rolname = $1', [role]);
  if (rowCount === 0) await client.query(`create role ${role}`);
  await client.query(
    `alter role ${role} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls
       connection limit ${connections} password ${client.escapeLiteral(password)}`,
  );
}

async function withClient(config: pg.ClientConfig, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client(config);
  // A connection that breaks outside a query says so here; the next query fails too.
  client.on('error', () => {});
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
