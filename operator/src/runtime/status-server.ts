/** The operator's HTTP endpoints: /healthz (the process runs), /readyz (the caches are filled), /metrics. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import { listen } from '@slipway/program';
import type { Metrics } from './metrics.js';

export interface StatusServerOptions {
  /** `host:port`, or the path of a Unix socket. */
  listen: string;
  metrics: Metrics;
  isReady(): boolean;
}

export async function startStatusServer({ listen: at, metrics, isReady }: StatusServerOptions): Promise<Server> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://operator');
    if (pathname === '/healthz') answer(response, 200, 'ok');
    else if (pathname === '/readyz') answer(response, isReady() ? 200 : 503, isReady() ? 'ok' : 'starting');
    else if (pathname === '/metrics') {
      metrics.registry.metrics().then(
        (text) => answer(response, 200, text, metrics.registry.contentType),
        (error: Error) => answer(response, 500, error.message),
      );
    } else answer(response, 404, 'not found: there are /healthz, /readyz and /metrics');
  });
  await listen(server, at);
  return server;
}

function answer(response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': type }).end(body);
}
