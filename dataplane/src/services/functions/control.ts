/**
 * Control server for the platform's own programs: the operator deploys and deletes functions, the API reads logs.
 * Routes: `PUT` and `DELETE /<ref>/<name>`, `GET /<ref>/<name>/logs`, `GET /<ref>//logs` (of all
 * functions), `GET /` (the id of the disk), `GET /functions`
 * (the deployed ones). Only the platform's account can connect to the Unix socket; at a port each request needs the
 * token.
 */

import { chmod } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { isSameSecret, type JsonBound, listen, parseJsonInTurns } from '@slipway/program';
import type { Logger } from 'pino';
import { receiveBody } from '../../http/request-body.js';
import type { Deployer, DeployRequest } from './deployer.js';

/** Maximum bytes of a body: code of a million characters, each up to six bytes in JSON. */
const BODY_LIMIT = 8 * 1024 * 1024;
const MOST_OF_BODY: JsonBound = { bytes: BODY_LIMIT, depth: 2, values: 20 };

/** Unix socket, or `host:port` with a token, which is read at each request. */
export type ControlPlace = { socket: string } | { listen: string; token(): string };

export interface Controlled {
  deployer: Deployer;
  /** Id of the functions' disk. Another disk has none of the functions that were deployed before. */
  disk: string;
}

interface Answer {
  status: number;
  body: unknown;
}

const UNAUTHORIZED: Answer = { status: 401, body: { message: 'the token is missing or another' } };

export async function startFunctionsControl(
  control: ControlPlace,
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
      (response) => send(outgoing, response),
      (error: unknown) => {
        log.error({ err: error }, 'control request failed');
        send(outgoing, { status: 500, body: { message: 'The request failed; the data plane’s log has the reason' } });
      },
    );
  });
  // A deploy fetches imports, which may take long.
  server.requestTimeout = 0;
  await listen(server, 'socket' in control ? control.socket : control.listen);
  if ('socket' in control) await chmod(control.socket, 0o600);
  return server;
}

function bearing(token: () => string, log: Logger): (incoming: IncomingMessage) => boolean {
  return ({ headers }) => {
    try {
      return isSameSecret(headers.authorization ?? '', `Bearer ${token()}`);
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
    const body = await receiveBody(incoming, BODY_LIMIT);
    const { version, code, verifyJwt } = (await parseJsonInTurns(body, MOST_OF_BODY)) as Pick<
      DeployRequest,
      'version' | 'code' | 'verifyJwt'
    >;
    return { status: 200, body: await deployer.deploy({ ref, name, version, code, verifyJwt }) };
  }
  if (route === 'DELETE') {
    await deployer.remove(ref, name);
    return { status: 200, body: { state: 'ready' } };
  }
  if (route === 'GET logs') {
    const number = (key: string, otherwise: number) => Number(url.searchParams.get(key) ?? otherwise);
    if (name === '') return { status: 200, body: deployer.logsOfAll(ref, number('limit', 100)) };
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
