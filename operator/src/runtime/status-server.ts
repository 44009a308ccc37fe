/** The operator's HTTP endpoints: /healthz (it runs), /readyz (its caches are filled), /metrics. */
import { rm } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { Metrics } from './metrics.js';

export interface StatusServerOptions {
  /** `host:port`, or the path of a Unix socket. */
  listen: string;
  metrics: Metrics;
  isReady(): boolean;
}

export async function startStatusServer({ listen, metrics, isReady }: StatusServerOptions): Promise<Server> {
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
  await listenAt(server, listen);
  return server;
}

async function listenAt(server: Server, listen: string): Promise<void> {
  const [, host, port] = listen.match(/^(.*):(\d+)$/) ?? [];
  // The socket of a run that was killed is still there.
  if (port === undefined) await rm(listen, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).once('listening', resolve);
    if (port === undefined) server.listen(listen);
    else server.listen(Number(port), host);
  });
}

function answer(response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': type }).end(body);
}
