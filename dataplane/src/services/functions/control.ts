/**
 * Control server for the platform's own programs: the operator deploys and deletes functions, the API reads logs.
 * Routes: `PUT` and `DELETE /<ref>/<name>`, `GET /<ref>/<name>/logs`, `GET /<ref>//logs` (of all functions), `GET /`
 * (the id of the disk), `GET /functions` (the deployed ones).
 */

import type { IncomingMessage, Server } from 'node:http';
import {
  type InternalAnswer,
  type InternalPlace,
  type JsonBound,
  parseJsonInTurns,
  startInternalServer,
} from '@slipway/program';
import type { Logger } from 'pino';
import { receiveBody } from '../../http/request-body.js';
import type { Deployer, DeployRequest } from './deployer.js';

/** Maximum bytes of a body: code of a million characters, each up to six bytes in JSON. */
const BODY_LIMIT = 8 * 1024 * 1024;
const MOST_OF_BODY: JsonBound = { bytes: BODY_LIMIT, depth: 2, values: 20 };

export interface Controlled {
  deployer: Deployer;
  /** Id of the functions' disk. Another disk has none of the functions that were deployed before. */
  disk: string;
}

/** A deploy fetches imports, which may take long, so requests have no deadline. */
export const startFunctionsControl = (place: InternalPlace, controlled: Controlled, log: Logger): Promise<Server> =>
  startInternalServer(place, {
    answer: (incoming) => answer(controlled, incoming),
    onError: (err) => log.error({ err }, 'control request failed'),
    requestTimeout: 0,
  });

async function answer({ deployer, disk }: Controlled, incoming: IncomingMessage): Promise<InternalAnswer> {
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
