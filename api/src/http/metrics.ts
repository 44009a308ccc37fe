/**
 * Counts and measures requests for Prometheus, by method, route and status class. Only routes of the API are labels, so
 * the number of series is limited. The metrics are served at an address of their own.
 */
import { serveMetrics } from '@slipway/program';
import type { FastifyInstance } from 'fastify';
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client';

const SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Serves the metrics. `at` is the address to listen at, `host:port`. */
export async function startMetrics(fastify: FastifyInstance, at: string): Promise<void> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  count(fastify, registry);
  const stop = await serveMetrics(registry, at);
  fastify.addHook('onClose', async () => stop());
}

function count(fastify: FastifyInstance, registry: Registry): void {
  const registers = [registry];
  const requests = new Counter({
    name: 'slipway_api_requests_total',
    help: 'Requests by method, route and class of status.',
    labelNames: ['method', 'route', 'status'],
    registers,
  });
  const durations = new Histogram({
    name: 'slipway_api_request_duration_seconds',
    help: 'Seconds from the headers of a request to the end of its response.',
    labelNames: ['method', 'route'],
    buckets: SECONDS,
    registers,
  });
  fastify.addHook('onResponse', async (request, reply) => {
    const known = !request.is404;
    const route = known ? (request.routeOptions.url ?? 'none') : 'none';
    const method = known ? request.method : 'any';
    requests.inc({ method, route, status: `${Math.floor(reply.statusCode / 100)}xx` });
    durations.observe({ method, route }, reply.elapsedTime / 1000);
  });
}
