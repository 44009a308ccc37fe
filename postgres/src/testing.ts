/** For tests: a separate Postgres on a free port, which `close` removes. */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '@slipway/testing';
import { initialisePostgres, isInitialised, type PostgresServer, SUPERUSER, startPostgres } from './server.js';

export interface TestPostgres extends PostgresServer {
  /** Returns the options of `pg` for a superuser's connection to `database` over the Unix socket. */
  admin(database?: string): { host: string; port: number; user: string; password: string; database: string };
  close(): Promise<void>;
}

/** A folder that the test processes of a run share. The runner makes and removes it. */
const shared = process.env.SLIPWAY_TEST_SHARED;
const PASSWORD = 'test-superuser';

export async function startTestPostgres(settings: Record<string, string> = {}): Promise<TestPostgres> {
  const home = await mkdtemp(path.join(process.env.SLIPWAY_TEST_DATA ?? tmpdir(), 'slipway-test-'));
  await chmod(home, 0o711);
  const folder = path.join(home, 'data');
  await copyTemplate(folder);
  const start = async () =>
    startPostgres({
      folder,
      socketFolder: path.join(home, 's'),
      port: await freePort(),
      password: PASSWORD,
      settings: { shared_buffers: '64MB', ...settings },
    });
  // Another program may take the port between the check and the start.
  const server = await start().catch((error: Error) => {
    if (!error.message.includes('Address already in use')) throw error;
    return start();
  });
  const login = { host: server.socket, port: server.port, user: SUPERUSER, password: PASSWORD };
  return {
    ...server,
    admin: (database = 'postgres') => ({ ...login, database }),
    close: async () => {
      await server.stop('immediate');
      await rm(home, { recursive: true, force: true });
    },
  };
}

let template: Promise<string> | undefined;

/**
 * Copies a data folder that is made once in a run of tests. initdb takes a second of processor time, the copy 0.06 s.
 */
async function copyTemplate(folder: string): Promise<void> {
  if (!shared) return;
  template ??= makeTemplate(path.join(shared, 'postgres'));
  await promisify(execFile)('cp', ['-a', await template, folder]);
}

/** Makes the template. Several processes may do this at once; the first one to finish wins. */
async function makeTemplate(folder: string): Promise<string> {
  if (await isInitialised(folder)) return folder;
  const unfinished = `${folder}.${process.pid}`;
  await initialisePostgres({ folder: unfinished, password: PASSWORD });
  await rename(unfinished, folder).catch(async (error: Error) => {
    await rm(unfinished, { recursive: true });
    if (!(await isInitialised(folder))) throw error;
  });
  return folder;
}
