/**
 * Runs work in a superuser's session on the Postgres that projects share. In: the platform. Out: the result of the
 * work. If the server ends the session, the work fails, but not the process. The siege uses it.
 */
import pg from 'pg';
import type { Platform } from '../platform.js';

export async function connectAdmin(platform: Platform): Promise<pg.Client> {
  const client = new pg.Client(await platform.admin());
  client.on('error', () => {});
  await client.connect();
  return client;
}

export async function asAdmin<T>(platform: Platform, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connectAdmin(platform);
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => {});
  }
}
