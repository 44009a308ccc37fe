/**
 * Service that runs in separate pods, each a data plane with that service. A project's state there (sockets, uploads,
 * functions) is in one process. So each project has one pod, chosen from its ref alone, so that every gateway chooses
 * the same pod. In: requests and sockets with a valid key. Out: responses of the pod, which checks the key too. The
 * gateway calls it like any service.
 */
import type { Socket } from 'node:net';
import { type ProjectService } from '@slipway/crds';
import { podOf } from '@slipway/installation';
import { SHARED_ORIGIN } from '../http/origin-policy.js';
import { refuse, serviceBusy, serviceDown } from '../http/refusals.js';
import { upgradeResponse } from '../http/upgrade-response.js';
import type { Service, ServiceRequest, UpgradeRequest } from '../services/service.js';
import { forwardUpgrade } from './forward-upgrade.js';
import { headersFor, type ServiceAddress, UpstreamClient, type UpstreamLimits } from './upstream-client.js';

export interface RemoteOptions {
  service: ProjectService;
  /** URL of each pod. */
  urls: readonly string[];
  handshakeMilliseconds?: number;
  /** Sockets of all projects together; a pod has its own limits for each project. */
  sockets?: number;
}

const HANDSHAKE_MS = 10_000;
const SOCKETS = 20_000;

/**
 * Limits of forwarded requests. The pod limits streams and disconnects stalled clients itself, so these limits are only
 * wider.
 */
const LIMITS: Partial<Record<ProjectService, Partial<UpstreamLimits>>> = {
  storage: { bodyBytes: Number.POSITIVE_INFINITY, stillMilliseconds: 120_000 },
  // A call may sleep for minutes, so one project gets a small part of the places.
  functions: {
    bodyBytes: Number.POSITIVE_INFINITY,
    stillMilliseconds: 420_000,
    atOncePerService: 64,
    atOnce: 4096,
  },
};

export function createRemoteService(options: RemoteOptions): Service {
  return new Remote(options);
}

class Remote implements Service {
  readonly upgrade?: (request: UpgradeRequest) => void;
  readonly #service: ProjectService;
  readonly #upstreamClient: UpstreamClient;
  readonly #handshakeMilliseconds: number;
  readonly #mostSockets: number;
  readonly #urls: readonly string[];
  readonly #sockets = new Set<Socket>();

  constructor({ service, urls, handshakeMilliseconds = HANDSHAKE_MS, sockets = SOCKETS }: RemoteOptions) {
    this.#service = service;
    this.#upstreamClient = new UpstreamClient(LIMITS[service]);
    this.#urls = urls;
    this.#handshakeMilliseconds = handshakeMilliseconds;
    this.#mostSockets = sockets;
    if (service === 'realtime') this.upgrade = (request) => this.#join(request);
  }

  handle(request: ServiceRequest): Promise<void> {
    const { ref } = request.tenant;
    return this.#upstreamClient.forward({
      to: `${ref}/${this.#service}`,
      address: this.#addressOf(ref),
      path: this.#pathOf(request),
      headers: headersOf(request),
      saysWhoMayRead: true,
      request,
    });
  }

  #join(request: UpgradeRequest): void {
    const { incoming, tenant } = request;
    const socket = request.socket as Socket;
    if (this.#sockets.size >= this.#mostSockets) {
      refuse(upgradeResponse(socket, incoming), serviceBusy(this.#service));
      return;
    }
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    forwardUpgrade({
      address: this.#addressOf(tenant.ref),
      path: this.#pathOf(request),
      headers: headersOf(request),
      incoming,
      socket,
      head: request.head,
      policy: SHARED_ORIGIN,
      handshakeMilliseconds: this.#handshakeMilliseconds,
      refusalOf: () => serviceDown(this.#service),
    });
  }

  /** The pod watches projects itself, and closes the project's sockets. */
  async forget(): Promise<void> {}

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#upstreamClient.close();
  }

  #addressOf(ref: string): ServiceAddress {
    const { hostname, port } = new URL(podOf(ref, this.#urls));
    return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80) };
  }

  /** Returns the path that clients used, so that a redirect of the pod leads back to it. */
  #pathOf({ tenant, path, query }: ServiceRequest | UpgradeRequest): string {
    const place = `${new URL(tenant.url).pathname.replace(/\/$/, '')}/${this.#service}/v1${path}`;
    return query === '' ? place : `${place}?${query}`;
  }
}

/** The pod authenticates again. The key is sent in a header, because queries are logged more often. */
function headersOf(request: ServiceRequest | UpgradeRequest) {
  const headers = headersFor(request);
  headers.host = new URL(request.tenant.url).host;
  if (headers.apikey === undefined && request.token !== undefined) headers.apikey = request.token;
  return headers;
}
