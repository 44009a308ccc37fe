/** For tests: a Postgres of one's own on a free port, gone at close. */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type PostgresServer, SUPERUSER, startPostgres } from './server.js';

export interface TestPostgres extends PostgresServer {
  /** A connection as superuser to `database`, over the Unix socket, as `pg` takes it. */
  admin(database?: string): { host: string; port: number; user: string; password: string; database: string };
  close(): Promise<void>;
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export async function startTestPostgres(settings: Record<string, string> = {}): Promise<TestPostgres> {
  const home = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  await chmod(home, 0o711);
  const password = 'test-superuser';
  const start = async () =>
    startPostgres({
      folder: path.join(home, 'data'),
      socketFolder: path.join(home, 's'),
      port: await freePort(),
      password,
      settings: { shared_buffers: '64MB', ...settings },
    });
  // The cluster is made between the look for a port and its use: another program may take it meanwhile.
  const server = await start().catch((error: Error) => {
    if (!error.message.includes('Address already in use')) throw error;
    return start();
  });
  return {
    ...server,
    admin: (database = 'postgres') => ({ host: server.socket, port: server.port, user: SUPERUSER, password, database }),
    close: async () => {
      await server.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}
