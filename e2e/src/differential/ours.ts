/**
 * Starts a platform with one project that has every compared service. In: the project's schema, and the secret that
 * signs tokens. Out: the project's URL, and a connection to its database.
 */
import { until } from '@slipway/testing';
import pg from 'pg';
import { Management } from '../management.js';
import { startPlatform } from '../platform.js';

export interface Ours {
  url: string;
  /** A connection of the owner. */
  database: pg.Client;
  close(): Promise<void>;
}

export async function startOurs(schema: string, jwtSecret: string): Promise<Ours> {
  const platform = await startPlatform(undefined, { SLIPWAY_SERVICES_SHARED: 'storage' });
  try {
    const owner = await Management.register(platform);
    const spec = { name: 'compared', jwt_secret: jwtSecret };
    const created = await owner.call<{ id: number }>('POST', '/projects', spec);
    if (created.status !== 201)
      throw new Error(`POST /projects answered ${created.status}: ${JSON.stringify(created.body)}`);
    const project = await owner.untilHealthy(created.body.id);
    const database = new pg.Client({ connectionString: project.db_url });
    await database.connect();
    await database.query(schema);
    await database.query(
      "do $$ begin execute format('alter database %I set pgrst.db_aggregates_enabled = true', current_database()); " +
        'end $$',
    );
    const url = `http://127.0.0.1:${platform.port}/p/${project.ref}`;
    const headers = { apikey: project.service_role_key };
    await until(async () => {
      const answer = await fetch(`${url}/rest/v1/books?select=count()`, { headers });
      return answer.ok;
    }, 'the schema is served');
    const close = async () => {
      await database.end();
      await platform.remove();
    };
    return { url, database, close };
  } catch (error) {
    await platform.remove();
    throw error;
  }
}
