/** The content of a Postgres of projects by kind, and the expected content, for tests. In: a superuser's login. */
import { databaseOf } from '@slipway/installation';
import { PROJECT_INVENTORY } from '@slipway/project-database/inventory.testing.js';
import pg from 'pg';
import type { Inventory } from './chaos.suite.js';

const QUERIES: Record<string, string> = {
  ...PROJECT_INVENTORY,
  spares: `SELECT 'spare' FROM pg_database WHERE datname LIKE 'slipway-spare-%'`,
  // A role that was made for a spare is dropped with it, or becomes a project's.
  spareRoles: `SELECT 'role' FROM pg_roles WHERE rolname LIKE '%.spare\\_%'`,
  unfinished:
    "SELECT datname FROM pg_database WHERE datname LIKE 'slipway-building-%' " +
    "OR datname LIKE 'slipway-gone-%' OR datconnlimit = -2",
  templates: `SELECT 'template' FROM pg_database WHERE datname LIKE 'slipway-template-%'`,
  slots: `SELECT slot_name FROM pg_replication_slots`,
};
const LOGINS = ['auth_admin', 'authenticator', 'postgres'];

export async function postgresInventory(login: pg.ClientConfig): Promise<Inventory> {
  const client = new pg.Client({ ...login, connectionTimeoutMillis: 5_000 });
  client.on('error', () => {});
  await client.connect();
  try {
    const inventory: Inventory = {};
    for (const [what, sql] of Object.entries(QUERIES)) {
      const { rows } = await client.query<unknown[]>({ text: sql, rowMode: 'array' });
      inventory[what] = rows.map(([name]) => String(name)).sort();
    }
    return inventory;
  } finally {
    await client.end();
  }
}

export const expectedInPostgres = (refs: string[], spares: number): Inventory => ({
  databases: refs.map(databaseOf).sort(),
  roles: refs.flatMap((ref) => LOGINS.map((login) => `${login}.${ref}`)).sort(),
  records: [...refs].sort(),
  spares: Array.from({ length: spares }, () => 'spare'),
  spareRoles: Array.from({ length: spares * LOGINS.length }, () => 'role'),
  unfinished: [],
  templates: ['template'],
  slots: [],
});
