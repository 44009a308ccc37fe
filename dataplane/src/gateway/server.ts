/** The public port: passes requests for projects to their services, and forwards all others to the API. */
import { createServer, type Server } from 'node:http';
import { contains } from '../http/client-address.js';
import { ProjectResponse } from '../http/project-response.js';
import { MAX_BODY_BYTES } from '../http/request-body.js';
import { type Patience, SlowClients } from '../http/slow-clients.js';
import { AttemptLog } from './attempt-log.js';
import { ConnectionShares } from './connection-shares.js';
import { Gateway, type GatewayOptions } from './gateway.js';
import { RateLimit } from './rate-limit.js';

export interface GatewayServerOptions extends GatewayOptions {
  /** Requests in a second from one address to one project; 0: no limit; undefined: the default. */
  rateLimit?: number | undefined;
  limits?: Partial<GatewayLimits>;
}

export interface GatewayLimits extends Patience {
  bodyBytes: number;
  /** Milliseconds for a client to send its headers. */
  headersMilliseconds: number;
  connections: number;
}

const LIMITS: GatewayLimits = {
  bodyBytes: MAX_BODY_BYTES,
  headersMilliseconds: 15_000,
  connections: 16_384,
  requestMilliseconds: 120_000,
  stillMilliseconds: 60_000,
  checkMilliseconds: 5_000,
};

export function createGateway({ limits: overrides, ...options }: GatewayServerOptions): Server {
  const limits = { ...LIMITS, ...overrides };
  const server = createServer({
    headersTimeout: limits.headersMilliseconds,
    // The time for a body depends on the service: `SlowClients` limits it.
    requestTimeout: 0,
    connectionsCheckingInterval: limits.checkMilliseconds,
    keepAliveTimeout: 65_000,
    noDelay: true,
    ServerResponse: ProjectResponse,
    shouldUpgradeCallback: (incoming) => incoming.headers.upgrade?.toLowerCase() === 'websocket',
  }) as unknown as Server;
  // Behind an ingress all connections are the ingress' own.
  if (!options.behindIngress) {
    const isProxy = (address: string) =>
      options.trustedProxies !== undefined && contains(options.trustedProxies, address);
    new ConnectionShares(server, { most: limits.connections, isProxy, log: options.log });
  }
  const rateLimit = new RateLimit(options.rateLimit);
  const attempts = new AttemptLog(options.log, options.ownerLog);
  const { bodyBytes } = limits;
  const walls = { bodyBytes, rateLimit, slowClients: new SlowClients(server, limits), attempts };
  const gateway = new Gateway(options, walls);
  server.on('request', (incoming, outgoing) => gateway.onRequest(incoming, outgoing));
  server.on('upgrade', (incoming, socket, head) => {
    // An upgrade fails, for example, if an earlier response on its connection is incomplete. Logged only for debugging,
    // because callers could cause unbounded warnings.
    gateway.onUpgrade(incoming, socket, head).catch((error: unknown) => {
      options.log.debug({ err: error }, 'upgrade request failed');
      socket.destroy();
    });
  });
  server.once('close', () => {
    rateLimit.close();
    attempts.close();
  });
  return server;
}
