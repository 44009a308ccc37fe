import { createConnection, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartProblem } from './problem.js';
import type { Settings } from './settings.js';

/** Programs of a start that was killed end by themselves, a moment later. */
const PATIENCE_MS = 5_000;

/** Fails with one line that names the port and the variable when something else listens at one of ours. */
export async function expectFreePorts({ host, kubernetesHost, postgresHost, ports }: Settings): Promise<void> {
  const uses = [
    [host, ports.people, 'SLIPWAY_PORT', 'SLIPWAY_HOST'],
    [kubernetesHost, ports.kubernetes, 'SLIPWAY_PORT + 1, for the Kubernetes API', 'SLIPWAY_KUBERNETES_HOST'],
    [postgresHost, ports.postgres, 'SLIPWAY_PORT + 2, for Postgres', 'SLIPWAY_POSTGRES_HOST'],
  ] as const;
  const deadline = performance.now() + PATIENCE_MS;
  for (const [at, port, use, variable] of uses) {
    for (;;) {
      const code = await tryToListen(at, port);
      if (!code) break;
      if (code !== 'EADDRINUSE') {
        throw new StartProblem(`can not listen at ${at}:${port} (${code}): ${fixFor(code, variable)}`);
      }
      if (performance.now() > deadline) {
        throw new StartProblem(
          `port ${port} (${use}) is taken by another program: end it, or set SLIPWAY_PORT to another number`,
        );
      }
      await sleep(100);
    }
  }
}

const fixFor = (code: string, variable: string) =>
  code === 'EADDRNOTAVAIL'
    ? `set ${variable} to an address of this machine`
    : 'set SLIPWAY_PORT to a number above 1024';

async function tryToListen(host: string, port: number): Promise<string | undefined> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}

/** Whether something takes connections at a Unix socket or a TCP address. */
export async function answers(address: { path: string } | { host: string; port: number }): Promise<boolean> {
  const socket = createConnection(address);
  return await new Promise((resolve) => {
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
  }).then((connected) => {
    socket.destroy();
    return connected as boolean;
  });
}
