/**
 * One service on a port of its own, at the root. In: requests whose key a gateway has seen, or that come from within;
 * who calls is decided here by the Bearer token, and nobody has one is anon. Out: the service's answers. Used by both
 * programs.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { ofIngress } from '../gateway/client-address.js';
import { allowOrigin, answerPreflight, isPreflight } from '../gateway/cors.js';
import { credentialsOf } from '../gateway/credentials.js';
import { hasBody } from '../gateway/proxy-headers.js';
import { BODY_TOO_LARGE, FAILED, type Refusal, refuse, serviceDown } from '../gateway/refusals.js';
import { SlowClients } from '../gateway/slow-clients.js';
import { TokenProblem, Tokens } from '../gateway/tokens.js';
import { MAX_BODY_BYTES } from '../request-body.js';
import type { Service } from '../service.js';
import { ConnectionError, PoolBusyError } from '../sql/errors.js';
import type { Caller, Tenant } from '../tenant.js';

export interface ServedAlone {
  tenant: Tenant;
  service: Service;
  /** The identity of callers without a token; undefined: their requests are refused with `noToken`. */
  anonymous: Caller | undefined;
  /** Undefined: the service is told of a token that is no good, and answers itself. */
  refusalOf: ((problem: TokenProblem | 'no-token') => Refusal) | undefined;
  log: Logger;
}

const NOBODY: Caller = { role: 'anon', claims: '{"role":"anon"}' };
const HEADERS_MS = 15_000;
const PATIENCE = { requestMilliseconds: 120_000, stillMilliseconds: 60_000, checkMilliseconds: 5_000 };
/** Longer than those in front keep a connection, so that it is never closed under a request. */
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
    answer(served, tokens, requestId, incoming, outgoing).catch((error: unknown) =>
      fail(error, served, requestId, outgoing),
    );
  });
  return server;
}

async function answer(
  { tenant, service, anonymous, refusalOf }: ServedAlone,
  tokens: Tokens,
  requestId: string,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
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

const verdictOf = async (tokens: Tokens, tenant: Tenant, token: string) =>
  tokens.remembered(tenant, token) ?? (await tokens.verify(tenant, token));

function idOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
}

function fail(error: unknown, { log, tenant }: ServedAlone, requestId: string, outgoing: ServerResponse): void {
  if ((error as { status?: unknown } | null)?.status === 413) return refuse(outgoing, BODY_TOO_LARGE);
  if (outgoing.destroyed && !outgoing.writableFinished) return;
  const down = error instanceof ConnectionError || error instanceof PoolBusyError;
  log.error({ err: error, requestId }, down ? 'database not reachable' : 'request failed');
  refuse(outgoing, down ? serviceDown([...tenant.services].join()) : FAILED);
}
