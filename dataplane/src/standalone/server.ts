/**
 * Serves one service on its own port, at the root. In: requests whose key a gateway has checked, or from inside the
 * cluster. The Bearer token decides the caller; without one the caller is anonymous. Out: the service's responses. Used
 * by both programs.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { ofIngress } from '../http/client-address.js';
import { allowOrigin, answerPreflight, isPreflight } from '../http/cors.js';
import { hasBody } from '../http/proxy-headers.js';
import { BODY_TOO_LARGE, bodiesTooLarge, FAILED, type Refusal, refuse, serviceDown } from '../http/refusals.js';
import { BodiesTooLargeError, BodyTooLargeError, MAX_BODY_BYTES, releaseBody } from '../http/request-body.js';
import { SlowClients } from '../http/slow-clients.js';
import { credentialsOf } from '../identity/credentials.js';
import { TokenProblem, Tokens } from '../identity/tokens.js';
import type { BackendTenant, Caller } from '../projects/tenant.js';
import type { Service, ServiceRequest } from '../services/service.js';
import { ConnectionError, PoolBusyError } from '../sql/errors.js';

export interface ServedAlone {
  tenant: BackendTenant;
  service: Service;
  /** Identity of callers without a token; undefined: their requests are rejected with `noToken`. */
  anonymous: Caller | undefined;
  /** Undefined: the service gets the problem of an invalid token, and responds itself. */
  refusalOf: ((problem: TokenProblem | 'no-token') => Refusal) | undefined;
  log: Logger;
}

const NOBODY: Caller = { role: 'anon', claims: '{"role":"anon"}' };
const HEADERS_MS = 15_000;
const PATIENCE = { requestMilliseconds: 120_000, stillMilliseconds: 60_000, checkMilliseconds: 5_000 };
/**
 * Milliseconds until an idle connection is closed. They are more than the idle timeout of proxies in front, so that a
 * connection is never closed during a request.
 */
const KEEP_ALIVE_MS = 65_000;
const REQUEST_ID = /^[\w.-]{1,128}$/;

export function createServiceServer(served: ServedAlone): Server {
  const server = createServer({
    headersTimeout: HEADERS_MS,
    requestTimeout: 0,
    connectionsCheckingInterval: PATIENCE.checkMilliseconds,
    keepAliveTimeout: KEEP_ALIVE_MS,
    noDelay: true,
  });
  const slowClients = new SlowClients(server, PATIENCE);
  const tokens = new Tokens();
  server.on('request', (incoming, outgoing) => {
    if (hasBody(incoming)) slowClients.watch(incoming, outgoing, false);
    const requestId = idOf(incoming);
    outgoing.setHeader('X-Request-Id', requestId);
    answer(served, tokens, { requestId, incoming, outgoing })
      .catch((error: unknown) => fail(error, served, requestId, outgoing))
      .finally(() => releaseBody(incoming));
  });
  return server;
}

async function answer(
  { tenant, service, anonymous, refusalOf }: ServedAlone,
  tokens: Tokens,
  { requestId, incoming, outgoing }: Pick<ServiceRequest, 'requestId' | 'incoming' | 'outgoing'>,
): Promise<void> {
  if (isPreflight(incoming)) return answerPreflight(incoming, outgoing);
  if (incoming.headers.origin !== undefined) allowOrigin(outgoing);
  if (Number(incoming.headers['content-length']) > MAX_BODY_BYTES) return refuse(outgoing, BODY_TOO_LARGE);
  const token = credentialsOf(incoming).bearer;
  const verdict = token === undefined ? undefined : await verdictOf(tokens, tenant, token);
  if (refusalOf && verdict instanceof TokenProblem) return refuse(outgoing, refusalOf(verdict));
  if (refusalOf && verdict === undefined && anonymous === undefined) return refuse(outgoing, refusalOf('no-token'));
  const tokenProblem = verdict instanceof TokenProblem ? verdict : undefined;
  const caller = verdict === undefined || verdict instanceof TokenProblem ? (anonymous ?? NOBODY) : verdict;
  const [path = '/', query = ''] = (incoming.url ?? '/').split(/\?(.*)/s);
  const address = ofIngress(incoming);
  await service.handle({ tenant, caller, token, address, path, query, requestId, tokenProblem, incoming, outgoing });
}

const verdictOf = async (tokens: Tokens, tenant: BackendTenant, token: string) =>
  tokens.remembered(tenant, token) ?? (await tokens.verify(tenant, token));

function idOf({ headers }: IncomingMessage): string {
  const sent = headers['x-request-id'];
  return typeof sent === 'string' && REQUEST_ID.test(sent) ? sent : randomUUID();
}

function fail(error: unknown, { log, tenant }: ServedAlone, requestId: string, outgoing: ServerResponse): void {
  if (error instanceof BodyTooLargeError) return refuse(outgoing, BODY_TOO_LARGE);
  if (error instanceof BodiesTooLargeError) return refuse(outgoing, bodiesTooLarge(error));
  if (outgoing.destroyed && !outgoing.writableFinished) return;
  const down = error instanceof ConnectionError || error instanceof PoolBusyError;
  log.error({ err: error, requestId }, down ? 'database not reachable' : 'request failed');
  refuse(outgoing, down ? serviceDown([...tenant.services].join()) : FAILED);
}
