/**
 * Fastify as this API wants it: JSON bodies of at most 1 MiB, request ids, one log line a request without its query.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { callerGone } from './caller-signal.js';
import { pagePolicy } from './page-policy.js';
import { Problem } from './problem.js';
import { answerProblem, pathOf, unrouted } from './problem-filter.js';
import type { RequestLimits } from './request-limits.js';

const BODY_LIMIT = 1024 * 1024;

/**
 * `behindProxy`: requests come through the data plane or an ingress, which names the caller at the end of
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

/** An empty body is none, so that a client which always names a content type can call a route that takes nothing. */
function parseJsonOnly(fastify: FastifyInstance) {
  const parse = fastify.getDefaultJsonParser('error', 'error');
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') return done(null, undefined);
    parse(request, body as string, (error, value) =>
      error ? done(new Problem('malformed_json', 'The body is not valid JSON.')) : done(null, value),
    );
  });
}

const PROBED = new Set(['/health', '/healthz', '/readyz']);

function observe(fastify: FastifyInstance, log: Logger, limits: RequestLimits) {
  fastify.addHook('onRequest', async (request, reply) => {
    void reply.headers({ 'x-request-id': request.id, 'cache-control': 'no-store', ...pagePolicy(pathOf(request)) });
    reply.raw.once('close', () => {
      // Fastify has no response then, and calls no hook.
      if (!reply.raw.writableFinished) logRequest(log, request, reply, callerGone().status);
    });
    limits.countRequest(pathOf(request), request.ip);
    // Before the body is looked at: what is wrong with it matters to nobody where there is no route.
    if (request.is404 && request.method !== 'OPTIONS') throw unrouted(request);
  });
  fastify.addHook('onResponse', async (request, reply) => logRequest(log, request, reply, reply.statusCode));
}

function logRequest(log: Logger, request: FastifyRequest, reply: FastifyReply, status: number): void {
  const path = pathOf(request);
  const entry = {
    request: request.id,
    method: request.method,
    path,
    status,
    ms: Math.round(reply.elapsedTime),
    // Who was turned away, for whoever looks for an attack.
    ...([401, 403].includes(status) ? { address: request.ip } : {}),
  };
  log[PROBED.has(path) ? 'debug' : 'info'](entry, 'request');
}
