/** Probe endpoints for Kubernetes. They are not part of the public API, so they are neither documented nor logged. */
import type { FastifyInstance } from 'fastify';

/**
 * Serves `/healthz` (the program runs) and `/readyz` (it can serve requests). `/readyz` ignores problems that every
 * other pod has too; `/health` reports them.
 */
export function serveProbes(fastify: FastifyInstance, isReady: () => Promise<boolean>): void {
  fastify.get('/healthz', async () => ({ ok: true }));
  fastify.get('/readyz', async (_, reply) => {
    if (await isReady()) return { ok: true };
    void reply.code(503);
    return { ok: false, reason: 'the platform database does not answer' };
  });
}
