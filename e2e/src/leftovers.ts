/** What stands in Postgres under a project's name. */

import { databaseOf } from '@slipway/crds';
import { spareRef } from '@slipway/project-database';
import pg from 'pg';
import type { Platform } from './platform.js';

/** Databases and roles of `ref` that are there. */
export async function databaseObjectsOf(platform: Platform, ref: string): Promise<string[]> {
  return await asSuperuser(platform, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      `select datname as name from pg_database where datname = $1
       union all select rolname from pg_roles where rolname like '%.' || $2 order by 1`,
      [databaseOf(ref), ref],
    );
    return rows.map(({ name }) => name);
  });
}

/** Every database and role that belongs to some project; spares are nobody's. */
export async function allProjectObjects(platform: Platform): Promise<{ databases: string[]; roles: string[] }> {
  return await asSuperuser(platform, async (client) => {
    const databases = await client.query<{ name: string }>(
      `select datname as name from pg_database where datname like 'p-%' order by 1`,
    );
    const roles = await client.query<{ name: string }>(
      `select rolname as name from pg_roles where rolname like '%.%' and rolname not like '%.' || $1 order by 1`,
      [`${spareRef('').replaceAll('_', '\\_')}%`],
    );
    return { databases: databases.rows.map(({ name }) => name), roles: roles.rows.map(({ name }) => name) };
  });
}

async function asSuperuser<T>(platform: Platform, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(await platform.admin());
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
