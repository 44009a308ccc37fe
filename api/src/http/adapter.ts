/**
 * Configures Fastify: JSON bodies of at most 1 MiB, request ids, and one log line for each request, without its query.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { countValues, type JsonBound, type JsonRefusal, underWay } from '@slipway/program';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { callerGone } from './caller-signal.js';
import { pagePolicy } from './page-policy.js';
import { Problem } from './problem.js';
import { answerProblem, pathOf, unrouted } from './problem-filter.js';
import type { RequestLimits } from './request-limits.js';

const BODY_LIMIT = 1024 * 1024;
/**
 * Maximum depth and number of values of a JSON body. The largest valid bodies have 200 variables; decoding 5,000 values
 * takes about 5 ms of processor time.
 */
const MOST_OF_BODY: JsonBound = { bytes: BODY_LIMIT, depth: 100, values: 5_000 };

/**
 * `behindProxy`: the data plane or an ingress forwards the requests, and appends the caller's address to
 * X-Forwarded-For.
 */
export function fastifyAdapter(log: Logger, behindProxy: boolean, limits: RequestLimits): FastifyAdapter {
  const adapter = new FastifyAdapter({
    bodyLimit: BODY_LIMIT,
    trustProxy: behindProxy ? (_address: string, hop: number) => hop < 1 : false,
    requestTimeout: 60_000,
    connectionTimeout: 75_000,
    genReqId: ({ headers }: IncomingMessage) => acceptableId(headers['x-request-id']) ?? randomUUID(),
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) =>
      answerProblem(error, request, reply, log),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 200 },
  } as never);
  const fastify = adapter.getInstance() as unknown as FastifyInstance;
  parseJsonOnly(fastify);
  observe(fastify, log, limits);
  return adapter;
}

const acceptableId = (id: unknown) => (typeof id === 'string' && /^[\w.-]{1,64}$/.test(id) ? id : undefined);

/** Treats an empty body as a missing one, because some clients always send a content type. */
function parseJsonOnly(fastify: FastifyInstance) {
  const parse = fastify.getDefaultJsonParser('error', 'error');
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    nameWork(request);
    if (body.length === 0) return done(null, undefined);
    const refusal = refusalOf(body as Buffer);
    if (refusal) return done(refusal);
    parse(request, body.toString(), (error, value) =>
      error ? done(new Problem('malformed_json', 'The body is not valid JSON.')) : done(null, value),
    );
  });
}

function refusalOf(body: Buffer): Problem | undefined {
  try {
    countValues(body, MOST_OF_BODY);
    return undefined;
  } catch (error) {
    return new Problem('body_too_large', `The body can't be decoded: ${(error as JsonRefusal).message}.`);
  }
}

/**
 * Routes that git hosts call, with forms and larger bodies. The adapter removes the headers that describe the body, so
 * Fastify parses no body: the handler reads it after authentication (`raw-body.ts`), and Node drops the rest.
 */
const BODY_UNREAD = new Set(['/projects/:id/deploy', '/projects/:id/compute/webhook']);
const isDelivery = ({ routeOptions, headers }: FastifyRequest) =>
  BODY_UNREAD.has(routeOptions.url ?? '') && headers.authorization === undefined;

function leaveBodyUnread({ routeOptions, headers }: FastifyRequest): void {
  if (!BODY_UNREAD.has(routeOptions.url ?? '')) return;
  for (const name of ['content-type', 'content-length', 'transfer-encoding']) delete headers[name];
}

const PROBED = new Set(['/health', '/healthz', '/readyz']);

function observe(fastify: FastifyInstance, log: Logger, limits: RequestLimits) {
  fastify.addHook('onRequest', async (request, reply) => {
    nameWork(request);
    void reply.headers({ 'x-request-id': request.id, 'cache-control': 'no-store', ...pagePolicy(pathOf(request)) });
    reply.raw.once('close', () => {
      // Then Fastify has no response, and calls no hook.
      if (!reply.raw.writableFinished) logRequest(log, request, reply, callerGone().status);
    });
    // All customers of a git host share its network. Wrong deliveries have a limit of their own (webhook-secrets.ts).
    if (!isDelivery(request)) limits.countRequest(pathOf(request), request.ip);
    leaveBodyUnread(request);
    // This is checked before the body, because an unknown route returns 404 whatever the body is.
    if (request.is404 && request.method !== 'OPTIONS') throw unrouted(request);
  });
  fastify.addHook('onResponse', async (request, reply) => logRequest(log, request, reply, reply.statusCode));
}

/** Name of the route for the watchdog, without ids and bodies. */
const nameWork = ({ method, routeOptions }: FastifyRequest) =>
  underWay('', `${method} ${routeOptions.url ?? '(no route)'}`);

function logRequest(log: Logger, request: FastifyRequest, reply: FastifyReply, status: number): void {
  const path = pathOf(request);
  const entry = {
    request: request.id,
    method: request.method,
    path,
    status,
    ms: Math.round(reply.elapsedTime),
    // The address of a rejected client is logged, so that an attack can be found.
    ...([401, 403].includes(status) ? { address: request.ip } : {}),
  };
  log[PROBED.has(path) ? 'debug' : 'info'](entry, 'request');
}
