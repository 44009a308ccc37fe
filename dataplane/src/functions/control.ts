/**
 * A Unix socket for the platform's own programs: the operator deploys and removes here, the API reads logs. `PUT` and `DELETE
 * /<ref>/<name>`, `GET /<ref>/<name>/logs`. Only the account that runs the platform may connect.
 */
import { chmod, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { readBody } from '../request-body.js';
import type { Deployer } from './deployer.js';

/** Code of a million characters, each up to six bytes in JSON. */
const BODY_LIMIT = 8 * 1024 * 1024;

export async function startFunctionsControl(socket: string, deployer: Deployer, log: Logger): Promise<Server> {
  const server = createServer((incoming, outgoing) => {
    answer(deployer, incoming).then(
      ({ status, body }) => send(outgoing, status, body),
      (error: unknown) => {
        log.error({ err: error }, 'a request of the platform for a function failed');
        send(outgoing, 500, { message: 'it failed; the data plane’s log says why' });
      },
    );
  });
  // Fetching what a function imports takes its time.
  server.requestTimeout = 0;
  await rm(socket, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(socket, resolve);
  });
  await chmod(socket, 0o600);
  return server;
}

async function answer(deployer: Deployer, incoming: IncomingMessage): Promise<{ status: number; body: unknown }> {
  const url = new URL(incoming.url as string, 'http://control');
  const [ref = '', name = '', rest] = url.pathname.split('/').slice(1).map(decodeURIComponent);
  const route = `${incoming.method} ${rest ?? ''}`.trim();
  if (route === 'PUT') {
    const { version, code, verifyJwt } = JSON.parse((await readBody(incoming, BODY_LIMIT)).toString());
    return { status: 200, body: await deployer.deploy({ ref, name, version, code, verifyJwt }) };
  }
  if (route === 'DELETE') {
    await deployer.remove(ref, name);
    return { status: 200, body: { state: 'ready' } };
  }
  if (route === 'GET logs') {
    const number = (key: string, otherwise: number) => Number(url.searchParams.get(key) ?? otherwise);
    const lines = deployer.logs(ref, name, number('after', 0), number('limit', 100));
    return lines ? { status: 200, body: lines } : { status: 404, body: { message: 'no such function is deployed' } };
  }
  return { status: 404, body: { message: 'no such route' } };
}

function send(outgoing: ServerResponse, status: number, body: unknown): void {
  outgoing.writeHead(status, { 'Content-Type': 'application/json' });
  outgoing.end(JSON.stringify(body));
}
