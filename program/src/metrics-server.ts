/**
 * Serves `/metrics` for Prometheus at a separate address. In: a registry. Out: a function that stops the server. Used
 * by the API and the data plane.
 */
import { createServer } from 'node:http';
import { listen } from './listening.js';

/** Part of prom-client's registry that is used. */
export interface MetricsRegistry {
  readonly contentType: string;
  metrics(): Promise<string>;
}

/** `at`: host:port. */
export async function serveMetrics(registry: MetricsRegistry, at: string): Promise<() => void> {
  const server = createServer((incoming, outgoing) => {
    if (incoming.url !== '/metrics') {
      outgoing.writeHead(404).end('not found: the path is /metrics\n');
      return;
    }
    registry.metrics().then(
      (text) => outgoing.writeHead(200, { 'content-type': registry.contentType }).end(text),
      (error: Error) => outgoing.writeHead(500).end(error.message),
    );
  });
  await listen(server, at);
  return () => {
    server.close();
    server.closeAllConnections();
  };
}
