/**
 * Where the platform's own programs say which functions are served: the operator deploys and removes here, the API
 * reads logs. `PUT` and `DELETE /<ref>/<name>`, `GET /<ref>/<name>/logs`, `GET /` for the disk that functions are kept
 * on, `GET /functions` for which. At a Unix socket only the account that runs the platform may connect; at a port
 * whoever asks must show the token.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { chmod } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { listen } from '../listening.js';
import { readBody } from '../request-body.js';
import type { FunctionsSettings } from '../settings.js';
import type { Deployer } from './deployer.js';

/** Code of a million characters, each up to six bytes in JSON. */
const BODY_LIMIT = 8 * 1024 * 1024;

export interface Controlled {
  deployer: Deployer;
  /** Another one has none of the functions that were deployed before. */
  disk: string;
}

interface Answer {
  status: number;
  body: unknown;
}

const UNAUTHORIZED: Answer = { status: 401, body: { message: 'the token is missing or another' } };

export async function startFunctionsControl(
  control: FunctionsSettings['control'],
  controlled: Controlled,
  log: Logger,
): Promise<Server> {
  const isAllowed = 'token' in control ? bearing(control.token, log) : () => true;
  const server = createServer((incoming, outgoing) => {
    if (!isAllowed(incoming)) {
      incoming.resume();
      send(outgoing, UNAUTHORIZED);
      return;
    }
    answer(controlled, incoming).then(
      (said) => send(outgoing, said),
      (error: unknown) => {
        log.error({ err: error }, 'function request of the platform failed');
        send(outgoing, { status: 500, body: { message: 'it failed; the data plane’s log says why' } });
      },
    );
  });
  // Fetching what a function imports takes its time.
  server.requestTimeout = 0;
  await listen(server, 'socket' in control ? control.socket : control.listen);
  if ('socket' in control) await chmod(control.socket, 0o600);
  return server;
}

/** Digests are compared, so that the time it takes tells nothing, not even the token's length. */
function bearing(token: () => string, log: Logger): (incoming: IncomingMessage) => boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return ({ headers }) => {
    try {
      return timingSafeEqual(digest(headers.authorization ?? ''), digest(`Bearer ${token()}`));
    } catch (error) {
      log.error({ err: error }, 'platform token not readable');
      return false;
    }
  };
}

async function answer({ deployer, disk }: Controlled, incoming: IncomingMessage): Promise<Answer> {
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
  if (route === 'GET' && ref === '') return { status: 200, body: { disk } };
  if (route === 'GET' && ref === 'functions' && name === '') return { status: 200, body: deployer.deployed() };
  return { status: 404, body: { message: 'no such route' } };
}

function send(outgoing: ServerResponse, { status, body }: Answer): void {
  outgoing.writeHead(status, { 'Content-Type': 'application/json' });
  outgoing.end(JSON.stringify(body));
}
