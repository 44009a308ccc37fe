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

/**
 * The first of so many in a row, below those that the system gives away: who asks it for any port is given none of
 * these.
 */
export async function freePort(inARow = 1): Promise<number> {
  for (;;) {
    const first = 20_000 + Math.floor(Math.random() * 12_000);
    const free = await Promise.all(Array.from({ length: inARow }, (_, at) => isFree(first + at)));
    if (free.every(Boolean)) return first;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.on('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
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
