/** The HTTPS server. It authenticates each request, passes it to the router, and sends every rejection as a Status. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Logger } from 'pino';
import { ApiError, failure } from '../status.js';
import type { Authentication } from './authentication.js';
import { CONNECTION_LIMITS, ConnectionGuard, type ConnectionLimits } from './connection-guard.js';
import { RefusalLog } from './refusal-log.js';
import { endConnection, type Request, requestOf, sendJson } from './request.js';
import { answerPublic, PUBLIC_PATHS, type Routing, route } from './router.js';

const KEEP_ALIVE_MS = 65_000;

export interface Listener {
  port: number;
  close(): Promise<void>;
}

export interface ListenerSettings {
  host: string;
  port: number;
  tls: { cert: string; key: string };
  authentication: Authentication;
  routing: Routing;
  log: Logger;
  limits?: Partial<ConnectionLimits> | undefined;
}

export async function listen(settings: ListenerSettings): Promise<Listener> {
  const { host, port, tls, routing } = settings;
  const refusals = new RefusalLog(settings.log);
  const guard = new ConnectionGuard({ ...CONNECTION_LIMITS, ...settings.limits }, settings.log);
  const server = createServer({ ...tls, keepAliveTimeout: KEEP_ALIVE_MS }, (incoming, response) => {
    void answer(incoming, response, settings, refusals, guard);
  });
  server.on('connection', (socket: Socket) => guard.accept(socket));
  server.once('close', () => {
    refusals.close();
    guard.close();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return { port: (server.address() as AddressInfo).port, close: () => close(server, routing) };
}

async function close(server: Server, { watches }: Routing): Promise<void> {
  for (const stream of watches) stream.end();
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeIdleConnections();
  const cut = setTimeout(() => server.closeAllConnections(), 2000);
  await closed;
  clearTimeout(cut);
}

async function answer(
  incoming: IncomingMessage,
  response: ServerResponse,
  settings: ListenerSettings,
  refusals: RefusalLog,
  guard: ConnectionGuard,
) {
  const request = requestOf(incoming, response);
  try {
    if (PUBLIC_PATHS.has(request.path)) return answerPublic(request, settings.routing);
    settings.authentication.authenticate(incoming);
    guard.authenticated(incoming.socket);
    await route(request, settings.routing);
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 401) refusals.note(request);
    refuse(request, error, settings.log);
  }
}

function refuse(request: Request, error: unknown, log: Logger): void {
  const known = error instanceof ApiError;
  if (!known) log.error({ err: error, method: request.method, path: request.path }, 'request failed');
  const refusal = known ? error : failure(500, 'InternalError', 'Internal error occurred');
  endConnection(request);
  const { code } = refusal.status;
  const headers = code === 429 || code === 503 || code === 504 ? { 'retry-after': '1' } : {};
  sendJson(request, code, JSON.stringify(refusal.status), headers);
}
