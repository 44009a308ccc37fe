/** Lists a project's objects in Postgres. */

import { databaseOf } from '@slipway/crds';
import { PROJECT_INVENTORY } from '@slipway/project-database/inventory.testing.js';
import pg from 'pg';
import type { Platform } from './platform.js';

/** Databases and roles of `ref` that are there, as its ref names them, and those that the server has no record of. */
export async function databaseObjectsOf(platform: Platform, ref: string): Promise<string[]> {
  const { databases, roles } = await allProjectObjects(platform);
  const isIts = (name: string) => name === databaseOf(ref) || name.endsWith(`.${ref}`) || /^[^.]*[.-]db_/.test(name);
  return [...databases, ...roles].filter(isIts);
}

/** Every database and role that belongs to some project, as its ref names it; spares are nobody's. */
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
