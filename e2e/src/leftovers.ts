/** Lists a project's objects in Postgres. */

import { databaseOf } from '@slipway/installation';
import { PROJECT_INVENTORY } from '@slipway/project-database/inventory.testing.js';
import pg from 'pg';
import type { Platform } from './platform.js';

/** Returns the existing databases and roles of `ref`, named by the ref, and those without a record. */
export async function databaseObjectsOf(platform: Platform, ref: string): Promise<string[]> {
  const { databases, roles } = await allProjectObjects(platform);
  const isIts = (name: string) => name === databaseOf(ref) || name.endsWith(`.${ref}`) || /^[^.]*[.-]db_/.test(name);
  return [...databases, ...roles].filter(isIts);
}

/** Returns every database and role of a project, named by its ref. Spares belong to no project. */
export async function allProjectObjects(platform: Platform): Promise<{ databases: string[]; roles: string[] }> {
  const client = new pg.Client(await platform.admin());
  await client.connect();
  try {
    const names = async (sql: string) =>
      (await client.query<string[]>({ text: sql, rowMode: 'array' })).rows.map(([name]) => name as string).sort();
    return { databases: await names(PROJECT_INVENTORY.databases), roles: await names(PROJECT_INVENTORY.roles) };
  } finally {
    await client.end();
  }
}
