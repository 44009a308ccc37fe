/** Endpoints for Kubernetes' probes: no part of the public API, so neither documented nor logged with it. */
import type { FastifyInstance } from 'fastify';

/**
 * `/healthz`: it runs. `/readyz`: it can answer, which `/health` may deny for reasons that no other pod would do
 * better.
 */
export function serveProbes(fastify: FastifyInstance, isReady: () => Promise<boolean>): void {
  fastify.get('/healthz', async () => ({ ok: true }));
  fastify.get('/readyz', async (_, reply) => {
    if (await isReady()) return { ok: true };
    void reply.code(503);
    return { ok: false, reason: 'the platform database does not answer' };
  });
}
