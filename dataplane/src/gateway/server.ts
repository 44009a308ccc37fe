/**
 * The port for people. In: requests for projects, answered by their services, and all others, handed on to the API.
 * Decides which project and who calls; a service sees only requests of callers whose key was good.
 */
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { MAX_BODY_BYTES } from '../request-body.js';
import type { Service } from '../service.js';
import type { Caller, Tenant } from '../tenant.js';
import { projectAddress, type ServiceAddress, serviceAddress } from './address.js';
import { allowOrigin, answerPreflight, isPreflight } from './cors.js';
import { type Credentials, credentialsOf, decideCaller, knownCaller, withoutKey } from './credentials.js';
import type { Management } from './management.js';
import {
  authTokenRefusal,
  BODY_TOO_LARGE,
  FAILED,
  INVALID_KEY,
  NO_KEY,
  notHere,
  type Refusal,
  refuse,
  restTokenRefusal,
  STARTING,
  UNKNOWN_PROJECT,
} from './refusals.js';
import { type TokenProblem, Tokens } from './tokens.js';

export interface GatewayOptions {
  publicUrl: string;
  tenant(ref: string): Tenant | undefined;
  /** Whether every project is known: before that, one that isn't may only not be known yet. */
  complete(): boolean;
  services: { auth: Service; rest: Service };
  management: Management;
  log: Logger;
  limits?: Partial<GatewayLimits>;
}

export interface GatewayLimits {
  bodyBytes: number;
  /** For a client to send its headers. */
  headersMilliseconds: number;
  /** For a client to send its whole request. */
  requestMilliseconds: number;
  /** How often connections are looked over for those that are too slow. */
  checkMilliseconds: number;
}

const LIMITS: GatewayLimits = {
  bodyBytes: MAX_BODY_BYTES,
  headersMilliseconds: 15_000,
  requestMilliseconds: 120_000,
  checkMilliseconds: 5_000,
};

/** Services that the availability matrix names but that a project here has not. */
const ABSENT: Readonly<Record<string, string>> = {
  storage: 'shared projects have no storage service',
  functions: 'shared projects have no edge functions',
  realtime: 'this installation does not run the realtime service',
  graphql: 'this installation does not run the GraphQL service',
};

const NOBODY: Caller = { role: 'anon', claims: '{"role":"anon"}' };

export function createGateway(options: GatewayOptions): Server {
  const { services, management, log, tenant: tenantOf } = options;
  const limits = { ...LIMITS, ...options.limits };
  const domain = `.${new URL(options.publicUrl).hostname.toLowerCase()}`;
  const tokens = new Tokens();
  const nextId = requestIds();

  function onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const requestId = nextId();
    if (log.isLevelEnabled('debug')) logWhenDone(log, incoming, outgoing, requestId);
    const address = projectAddress(incoming.url as string, incoming.headers.host, domain);
    if (address === undefined) {
      management.forward(incoming, outgoing, requestId);
      return;
    }
    outgoing.setHeader('X-Request-Id', requestId);
    if (isPreflight(incoming)) {
      answerPreflight(incoming, outgoing);
      return;
    }
    if (incoming.headers.origin !== undefined) allowOrigin(outgoing);
    const tenant = tenantOf(address.ref);
    if (tenant === undefined) {
      refuse(outgoing, options.complete() ? UNKNOWN_PROJECT : STARTING);
      return;
    }
    if (Number(incoming.headers['content-length']) > limits.bodyBytes) {
      refuse(outgoing, BODY_TOO_LARGE);
      return;
    }
    const place = serviceAddress(address.target);
    if (place === undefined || !(place.service === 'rest' || place.service === 'auth')) {
      refuse(outgoing, absent(place));
      return;
    }
    if (place.service === 'auth' && place.path === '/health') {
      serve(tenant, place, NOBODY, requestId, incoming, outgoing);
      return;
    }
    const credentials = credentialsOf(incoming, place.query);
    const caller = knownCaller(tokens, tenant, credentials);
    if (caller !== undefined) serve(tenant, place, caller, requestId, incoming, outgoing);
    else void decide(tenant, place, credentials, requestId, incoming, outgoing);
  }

  async function decide(
    tenant: Tenant,
    place: ServiceAddress,
    credentials: Credentials,
    requestId: string,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<void> {
    try {
      const decision = await decideCaller(tokens, tenant, credentials);
      if ('caller' in decision) {
        serve(tenant, place, decision.caller, requestId, incoming, outgoing);
      } else if (decision.refused !== 'invalid-token') {
        refuse(outgoing, decision.refused === 'no-key' ? NO_KEY : INVALID_KEY);
      } else if (place.service === 'rest') {
        refuse(outgoing, restTokenRefusal(decision.problem));
      } else if (decision.keyCaller === undefined) {
        refuse(outgoing, authTokenRefusal(decision.problem));
      } else {
        // Auth has routes that ask for no user: a client with a worn-out session may still sign in.
        serve(tenant, place, decision.keyCaller, requestId, incoming, outgoing, decision.problem);
      }
    } catch (error) {
      fail(error, requestId, outgoing);
    }
  }

  function serve(
    tenant: Tenant,
    place: ServiceAddress,
    caller: Caller,
    requestId: string,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    tokenProblem?: TokenProblem,
  ): void {
    const { path, query } = place;
    const service = place.service === 'rest' ? services.rest : services.auth;
    service
      .handle({ tenant, caller, path, query: withoutKey(query), requestId, incoming, outgoing, tokenProblem })
      .catch((error: unknown) => fail(error, requestId, outgoing));
  }

  function fail(error: unknown, requestId: string, outgoing: ServerResponse): void {
    if ((error as { status?: unknown } | null)?.status === 413) {
      refuse(outgoing, BODY_TOO_LARGE);
      return;
    }
    log.error({ err: error, requestId }, 'a request failed');
    refuse(outgoing, FAILED);
  }

  const server = createServer(
    {
      headersTimeout: limits.headersMilliseconds,
      requestTimeout: limits.requestMilliseconds,
      connectionsCheckingInterval: limits.checkMilliseconds,
      keepAliveTimeout: 65_000,
      noDelay: true,
    },
    onRequest,
  );
  return server;
}

function absent(place: ServiceAddress | undefined): Refusal {
  const why = place && ABSENT[place.service];
  if (why) return notHere(place.service, why);
  return { status: 404, body: { message: 'no Route matched with those values' } };
}

/** Ids that no two requests share, of this process or another; a caller can't choose one. */
function requestIds(): () => string {
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  return () => `${prefix}-${(++count).toString(36)}`;
}

/** Neither the query nor any header is logged: both may hold keys. */
function logWhenDone(log: Logger, incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): void {
  const begun = performance.now();
  const path = (incoming.url as string).split('?', 1)[0];
  outgoing.once('close', () => {
    const milliseconds = Math.round((performance.now() - begun) * 10) / 10;
    log.debug({ requestId, method: incoming.method, path, status: outgoing.statusCode, milliseconds }, 'request');
  });
}
