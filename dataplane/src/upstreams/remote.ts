/**
 * Service that runs elsewhere, in a data plane with that service: in separate pods, or on a project's machine. In:
 * requests and sockets with a valid key. Out: responses of that data plane, which checks the key too. The gateway calls
 * it like any service.
 */
import type { Socket } from 'node:net';
import { type ProjectService } from '@slipway/crds';
import { podOf } from '@slipway/installation';
import { Counts } from '@slipway/program';
import { SHARED_ORIGIN } from '../http/origin-policy.js';
import { type Refusal, refuse, serviceBusy, serviceDown } from '../http/refusals.js';
import { upgradeResponse } from '../http/upgrade-response.js';
import type { BackendTenant } from '../projects/tenant.js';
import type { Service, ServiceRequest, UpgradeRequest } from '../services/service.js';
import { forwardUpgrade } from './forward-upgrade.js';
import {
  headersFor,
  type ServiceAddress,
  ServiceUnreachable,
  UpstreamClient,
  type UpstreamLimits,
} from './upstream-client.js';

interface SharedOptions {
  service: ProjectService;
  handshakeMilliseconds?: number | undefined;
  /** Sockets of all projects together; a pod has its own limits for each project. */
  sockets?: number | undefined;
}

export interface RemoteOptions extends SharedOptions {
  /** URL of each pod. */
  urls: readonly string[];
}

export interface ElsewhereOptions extends SharedOptions {
  /** Returns the address for the project's requests; undefined: there is none now. */
  addressOf(tenant: BackendTenant): ServiceAddress | undefined;
  /** Returns the response to a socket whose server is unreachable or silent. */
  refusalOf(error: Error): Refusal;
  limits?: Partial<UpstreamLimits> | undefined;
  /** Share of one project of the free places for sockets. Default: no limit. */
  socketsPerFree?: number;
  /** True if `forget` closes the project's connections; otherwise the server closes them. */
  closesOnForget?: boolean;
}

const HANDSHAKE_MS = 10_000;
const SOCKETS = 20_000;

/**
 * Limits of forwarded requests. The data plane elsewhere limits streams and disconnects stalled clients itself, so
 * these limits are only wider.
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

/**
 * Returns a service in separate pods. A project's state there (sockets, uploads, functions) is in one process. So each
 * project has one pod, chosen from its ref alone, so that every gateway chooses the same pod.
 */
export function createRemoteService({ urls, ...options }: RemoteOptions): Service {
  const addressOf = ({ ref }: BackendTenant): ServiceAddress => {
    const { hostname, port } = new URL(podOf(ref, urls));
    return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80) };
  };
  return createServiceElsewhere({ ...options, addressOf, refusalOf: () => serviceDown(options.service) });
}

export const createServiceElsewhere = (options: ElsewhereOptions): Service => new Remote(options);

class Remote implements Service {
  readonly upgrade?: (request: UpgradeRequest) => void;
  readonly #service: ProjectService;
  readonly #upstreamClient: UpstreamClient;
  /** Open sockets with the refs of their projects. */
  readonly #sockets = new Map<Socket, string>();
  readonly #counts = new Counts();

  constructor(private readonly options: ElsewhereOptions) {
    const { service, limits } = options;
    this.#service = service;
    this.#upstreamClient = new UpstreamClient({ ...LIMITS[service], ...limits });
    if (service === 'realtime') this.upgrade = (request) => this.#join(request);
  }

  async handle(request: ServiceRequest): Promise<void> {
    const { ref } = request.tenant;
    const to = `${ref}/${this.#service}`;
    const address = this.options.addressOf(request.tenant);
    if (address === undefined) throw new ServiceUnreachable(`${to}: it has no address`);
    await this.#upstreamClient.forward({
      to,
      address,
      path: this.#pathOf(request),
      headers: headersOf(request),
      saysWhoMayRead: true,
      request,
    });
  }

  #join(request: UpgradeRequest): void {
    const { incoming, tenant } = request;
    const { ref } = tenant;
    const {
      addressOf,
      refusalOf,
      sockets: most = SOCKETS,
      socketsPerFree: perFree,
      handshakeMilliseconds,
    } = this.options;
    const socket = request.socket as Socket;
    const reject = (refusal: Refusal) => refuse(upgradeResponse(socket, incoming), refusal);
    const address = addressOf(tenant);
    if (address === undefined) return reject(refusalOf(new ServiceUnreachable('it has no address')));
    if (!this.#counts.hasRoom(ref, { most, ...(perFree && { perFree }) })) return reject(serviceBusy(this.#service));
    this.#sockets.set(socket, ref);
    this.#counts.add(ref);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.#counts.remove(ref);
    });
    forwardUpgrade({
      address,
      path: this.#pathOf(request),
      headers: headersOf(request),
      incoming,
      socket,
      head: request.head,
      policy: SHARED_ORIGIN,
      handshakeMilliseconds: handshakeMilliseconds ?? HANDSHAKE_MS,
      refusalOf,
    });
  }

  async forget(ref: string): Promise<void> {
    if (!this.options.closesOnForget) return;
    for (const [socket, of] of this.#sockets) if (of === ref) socket.destroy();
    this.#upstreamClient.closePinned(ref);
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets.keys()) socket.destroy();
    this.#upstreamClient.close();
  }

  /** Returns the path that clients used, so that a redirect leads back to it. */
  #pathOf({ tenant, path, query }: ServiceRequest | UpgradeRequest): string {
    const place = `${new URL(tenant.url).pathname.replace(/\/$/, '')}/${this.#service}/v1${path}`;
    return query === '' ? place : `${place}?${query}`;
  }
}

/** The other data plane authenticates again. The key is sent in a header, because queries are logged more often. */
function headersOf(request: ServiceRequest | UpgradeRequest) {
  const headers = headersFor(request);
  headers.host = new URL(request.tenant.url).host;
  if (headers.apikey === undefined && request.token !== undefined) headers.apikey = request.token;
  return headers;
}
