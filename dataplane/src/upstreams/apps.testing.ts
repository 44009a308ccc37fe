/** For tests of apps: a gateway, and containers that are real servers on loopback. */
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, BlockList, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { pino } from 'pino';
import { createGateway, type GatewayLimits } from '../gateway/server.js';
import type { AppTenant, Tenant } from '../projects/tenant.js';
import type { Apps } from '../services/service.js';
import { type HostRequest, requestHost } from '../testing/host-request.js';
import { type AppsOptions, createApps } from './apps.js';
import { createManagement } from './management.js';

const PUBLIC_URL = 'http://localhost:4000';

export interface AppWorldOptions {
  apps?: AppsOptions['limits'];
  gateway?: Partial<GatewayLimits>;
  rateLimit?: number;
}

export interface Container {
  port: number;
  server: Server | ReturnType<typeof createTcpServer>;
  connections: Set<Socket>;
  /** Number of connections so far. */
  opened: number;
  close(): Promise<void>;
}

/** Starts a container that handles HTTP. */
export const startContainer = (listener: RequestListener) => started(createServer(listener));

/** Starts a container that writes bytes of its own. */
export const startRawContainer = (handle: (socket: Socket) => void) => started(createTcpServer(handle));

async function started(server: Container['server']): Promise<Container> {
  const connections = new Set<Socket>();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    for (const socket of connections) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  const container: Container = { port, server, connections, opened: 0, close };
  server.on('connection', (socket: Socket) => {
    container.opened++;
    connections.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => connections.delete(socket));
  });
  return container;
}

/** Gateway with apps. Its address trusts X-Forwarded-For, so that a test can choose the address of a visitor. */
export class AppWorld {
  readonly #containers: Container[] = [];

  private constructor(
    readonly gateway: Server,
    readonly apps: Apps,
    readonly tenants: Map<string, Tenant>,
    readonly port: number,
  ) {}

  static async open({ apps: limits = {}, gateway: patience = {}, rateLimit = 0 }: AppWorldOptions = {}) {
    const apps = createApps({ limits });
    const trustedProxies = new BlockList();
    trustedProxies.addAddress('127.0.0.1');
    const tenants = new Map<string, Tenant>();
    const gateway = createGateway({
      publicUrl: PUBLIC_URL,
      allowedHosts: [],
      trustedProxies,
      tenant: (ref) => tenants.get(ref),
      complete: () => true,
      services: {},
      apps,
      rateLimit,
      limits: patience,
      management: createManagement(undefined, PUBLIC_URL),
      log: pino({ level: 'silent' }),
    });
    await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
    return new AppWorld(gateway, apps, tenants, (gateway.address() as AddressInfo).port);
  }

  /** Adds an app whose container is at the port; without a port, an app without a running version. */
  add(ref: string, port: number | undefined, change: Partial<AppTenant> = {}): AppTenant {
    const tenant: AppTenant = {
      kind: 'app',
      ref,
      revision: '1',
      incarnation: '1',
      suspended: false,
      type: 'app',
      siteUrl: `http://${ref}.localhost:4000`,
      account: `owner-of-${ref}@example.com`,
      upstream: port === undefined ? undefined : { host: '127.0.0.1', port },
      ...change,
    };
    this.tenants.set(ref, tenant);
    return tenant;
  }

  /** Starts a container, and adds an app for it. */
  async serve(ref: string, listener: RequestListener): Promise<Container> {
    return this.#added(ref, await startContainer(listener));
  }

  async serveRaw(ref: string, handle: (socket: Socket) => void): Promise<Container> {
    return this.#added(ref, await startRawContainer(handle));
  }

  #added(ref: string, container: Container): Container {
    this.#containers.push(container);
    this.add(ref, container.port);
    return container;
  }

  ask(ref: string, path = '/', { headers = {}, ...options }: Partial<HostRequest> = {}) {
    return requestHost({ port: this.port, host: hostOf(ref), path, headers, ...options });
  }

  /** Opens a connection to the gateway, on which the test writes bytes of its own. */
  connect(text = ''): RawClient {
    return new RawClient(this.port, text);
  }

  async close(): Promise<void> {
    this.apps.close();
    this.gateway.closeAllConnections();
    await new Promise((resolve) => this.gateway.close(resolve));
    for (const container of this.#containers) await container.close();
  }
}

export const hostOf = (ref: string) => `${ref}.localhost:4000`;

export class RawClient {
  received = '';
  readonly socket: Socket;
  readonly closed: Promise<string>;

  constructor(port: number, text: string) {
    this.socket = connect(port, '127.0.0.1', () => this.socket.write(text, 'latin1'));
    this.socket.setEncoding('latin1').on('data', (chunk) => {
      this.received += chunk;
    });
    this.socket.on('error', () => undefined);
    this.closed = new Promise((resolve) => this.socket.once('close', () => resolve(this.received)));
  }

  write(text: string): void {
    this.socket.write(text, 'latin1');
  }
}
