/**
 * Realtime service: channels with broadcast, presence and Postgres changes, in realtime-js' protocol. In: sockets at
 * `/realtime/v1/websocket` and broadcasts by REST, with a valid key. Out: frames and responses. Called by the gateway.
 */
import type { Logger } from 'pino';
import { WebSocketServer } from 'ws';
import { Tokens } from '../../identity/tokens.js';
import type { BackendTenant } from '../../projects/tenant.js';
import type { Service, ServiceRequest, UpgradeRequest } from '../service.js';
import { type Answer, answerBroadcast } from './broadcast-api.js';
import type { ReaderShares } from './changes/reader-shares.js';
import type { ReplicationLogin } from './changes/stream.js';
import { Connection } from './connection.js';
import { Hub } from './hub.js';
import { MAX_MESSAGE_BYTES } from './limits.js';
import { VERSIONS, type Version } from './protocol/messages.js';

export { ReaderShares } from './changes/reader-shares.js';
export type { ReplicationLogin } from './changes/stream.js';

export interface RealtimeOptions {
  log: Logger;
  /** Returns the login that reads changes of every tenant's database; called each time a stream starts. */
  replication: ReplicationLogin;
  shares: ReaderShares;
}

const SWEEP_MS = 15_000;
/** Milliseconds after which a project without sockets closes its connections. */
const IDLE_HUB_MS = 60_000;
/**
 * Maximum number of sockets, as a multiple of the plan's number of clients. Sockets that have not joined yet count too,
 * so that they can't fill the memory.
 */
const SOCKETS_PER_USER = 2;

export function createRealtimeService(options: RealtimeOptions): Service {
  return new RealtimeService(options);
}

class RealtimeService implements Service {
  readonly #options: RealtimeOptions;
  readonly #hubs = new Map<string, Hub>();
  readonly #tokens = new Tokens();
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_MESSAGE_BYTES,
    perMessageDeflate: false,
    clientTracking: false,
  });
  #closed = false;
  readonly #sweeper = setInterval(() => this.#sweep(), SWEEP_MS).unref();

  constructor(options: RealtimeOptions) {
    this.#options = options;
  }

  async handle(request: ServiceRequest): Promise<void> {
    const { outgoing, path } = request;
    const { status, body }: Answer =
      path === '/api/health'
        ? { status: 200, body: { healthy: true } }
        : ((await answerBroadcast(this.#hub(request.tenant), request)) ?? {
            status: 404,
            body: { message: 'Not Found' },
          });
    if (body === undefined) outgoing.writeHead(status).end();
    else outgoing.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8' }).end(JSON.stringify(body));
  }

  upgrade({ tenant, caller, token, path, query, incoming, socket, head }: UpgradeRequest): void {
    if (path !== '/websocket') return refuse(socket, 404, 'Not Found');
    if (this.#closed) return refuse(socket, 503, 'Service Unavailable');
    const version = (new URLSearchParams(query).get('vsn') ?? '1.0.0') as Version;
    if (!VERSIONS.includes(version)) return refuse(socket, 400, 'Bad Request');
    const hub = this.#hub(tenant);
    if (hub.connectionCount >= hub.limits.connections * SOCKETS_PER_USER)
      return refuse(socket, 429, 'Too Many Requests');
    this.#server.handleUpgrade(incoming, socket, head, (webSocket) => {
      hub.addConnection(new Connection(hub, { version, caller, token }, webSocket, socket));
    });
  }

  change(tenant: BackendTenant): void {
    void this.#hubs.get(tenant.ref)?.adopt(tenant);
  }

  async forget(ref: string): Promise<void> {
    const hub = this.#hubs.get(ref);
    this.#hubs.delete(ref);
    await hub?.close();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    await Promise.all([...this.#hubs.keys()].map((ref) => this.forget(ref)));
  }

  #hub(tenant: BackendTenant): Hub {
    const known = this.#hubs.get(tenant.ref);
    if (known?.tenant.incarnation === tenant.incarnation) return known;
    if (known) void this.forget(tenant.ref);
    const { log, replication, shares } = this.#options;
    const hub = new Hub({ tenant, tokens: this.#tokens, replication, shares, log });
    this.#hubs.set(tenant.ref, hub);
    return hub;
  }

  #sweep(): void {
    const before = performance.now() - IDLE_HUB_MS;
    for (const [ref, hub] of this.#hubs) {
      hub.closeSilent();
      if (!hub.isUsed && hub.usedAt < before) void this.forget(ref);
    }
  }
}

function refuse(socket: UpgradeRequest['socket'], status: number, text: string): void {
  // Otherwise a client with a half-open connection would keep the whole socket.
  socket.once('finish', () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} ${text}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}
