/**
 * Service that runs in separate pods, each a data plane with that service. A project's state there (sockets, uploads,
 * functions) is in one process. So each project has one pod, chosen from its ref alone, so that every gateway chooses
 * the same pod. In: requests and sockets with a valid key. Out: responses of the pod, which checks the key too. The
 * gateway calls it like any service.
 */

import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type ProjectService } from '@slipway/crds';
import { podOf } from '@slipway/installation';
import { SHARED_ORIGIN } from '../http/origin-policy.js';
import { endToEnd, isAnswer } from '../http/proxy-headers.js';
import { refuse, serviceBusy, serviceDown } from '../http/refusals.js';
import { upgradeResponse } from '../http/upgrade-response.js';
import type { Service, ServiceRequest, UpgradeRequest } from '../services/service.js';
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
    const { connection, upgrade } = incoming.headers;
    const upstream = httpRequest({
      ...this.#addressOf(tenant.ref),
      agent: false,
      path: this.#pathOf(request),
      headers: { ...headersOf(request), connection, upgrade },
    });
    const late = setTimeout(() => upstream.destroy(new Error('no answer in time')), this.#handshakeMilliseconds);
    let answered = false;
    const destroy = () => upstream.destroy();
    socket.once('close', destroy);
    upstream.once('upgrade', (answer, other, head) => {
      clearTimeout(late);
      answered = true;
      socket.off('close', destroy);
      join(request, answer, other as Socket, head);
    });
    upstream.once('response', (answer) => {
      clearTimeout(late);
      answered = true;
      if (isAnswer(answer)) return passOn(request, answer);
      upstream.destroy();
      refuse(upgradeResponse(socket, incoming), serviceDown(this.#service));
    });
    upstream.once('error', () => {
      clearTimeout(late);
      if (answered || socket.destroyed) socket.destroy();
      else refuse(upgradeResponse(socket, incoming), serviceDown(this.#service));
    });
    upstream.end();
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

function join({ socket, head }: UpgradeRequest, answer: IncomingMessage, other: Socket, otherHead: Buffer): void {
  const headers: string[] = [];
  for (let at = 0; at < answer.rawHeaders.length; at += 2) {
    const [name = '', value = ''] = answer.rawHeaders.slice(at, at + 2);
    if (SHARED_ORIGIN.admit(name.toLowerCase(), value) !== undefined) headers.push(`${name}: ${value}\r\n`);
  }
  other.setNoDelay(true);
  other.setTimeout(0);
  socket.write(`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\n${headers.join('')}\r\n`);
  if (otherHead.length > 0) socket.write(otherHead);
  if (head.length > 0) other.write(head);
  socket.pipe(other).pipe(socket);
  other.on('error', () => socket.destroy());
  other.once('close', () => socket.destroy());
  socket.once('close', () => other.destroy());
}

/** The pod rejects the upgrade: its response is forwarded. */
function passOn({ socket, incoming }: UpgradeRequest, answer: IncomingMessage): void {
  const outgoing = upgradeResponse(socket, incoming);
  outgoing.writeHead(answer.statusCode as number, endToEnd(answer));
  answer.once('error', () => socket.destroy());
  answer.pipe(outgoing);
}
