/**
 * `/metrics` for Prometheus, at an address of its own. In: what counts. Out: how to stop. Called by the API and the
 * data plane.
 */
import { createServer } from 'node:http';

/** The part of prom-client's registry that is used. */
export interface MetricsRegistry {
  readonly contentType: string;
  metrics(): Promise<string>;
}

/** `at`: host:port. */
export async function serveMetrics(registry: MetricsRegistry, at: string): Promise<() => void> {
  const server = createServer((incoming, outgoing) => {
    if (incoming.url !== '/metrics') {
      outgoing.writeHead(404).end('there is /metrics\n');
      return;
    }
    registry.metrics().then(
      (text) => outgoing.writeHead(200, { 'content-type': registry.contentType }).end(text),
      (error: Error) => outgoing.writeHead(500).end(error.message),
    );
  });
  const colon = at.lastIndexOf(':');
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).once('listening', resolve);
    server.listen(Number(at.slice(colon + 1)), at.slice(0, colon).replace(/^\[|\]$/g, ''));
  });
  return () => {
    server.close();
    server.closeAllConnections();
  };
}
