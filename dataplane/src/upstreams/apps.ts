/**
 * Forwards requests and WebSockets to the containers of apps. In: requests at an app's own origin, with the address of
 * its container. Out: the container's response, streamed, or an error that names the app. Bounds what is in flight for
 * one visitor, one app and one account. The gateway calls it.
 */
import type { OutgoingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { Counts, isLoopback, networkOf, type Share } from '@slipway/program';
import { OWN_ORIGIN } from '../http/origin-policy.js';
import { handedOn, hasBody } from '../http/proxy-headers.js';
import { APP_BUSY, APP_DOWN, APP_TOO_SLOW, NO_WEB_SOCKET, type Refusal, refuse } from '../http/refusals.js';
import { upgradeResponse } from '../http/upgrade-response.js';
import type { AppRequest, Apps, AppUpgradeRequest } from '../services/service.js';
import { forwardUpgrade } from './forward-upgrade.js';
import { ServiceTooSlow, UpstreamClient, type UpstreamLimits } from './upstream-client.js';

export interface PlaceLimits {
  /** Maximum in flight for all apps together. */
  most: number;
  /** Share of the free places that the apps of one account may use. */
  accountPerFree: number;
  /** Maximum of one app. */
  ofApp: number;
  /** Maximum of one network at one app. Connections from this machine don't count, because a proxy may open them. */
  ofVisitor: number;
}

export interface AppLimits {
  requests: PlaceLimits;
  sockets: PlaceLimits;
  handshakeMilliseconds: number;
  client: Partial<UpstreamLimits>;
}

const LIMITS: AppLimits = {
  // An account alone gets a fifth of all places.
  requests: { most: 4096, accountPerFree: 1 / 4, ofApp: 512, ofVisitor: 256 },
  sockets: { most: 8192, accountPerFree: 1 / 4, ofApp: 1024, ofVisitor: 256 },
  handshakeMilliseconds: 10_000,
  client: {
    idleConnections: 1024,
    // Less than 5 s, after which a server of Node.js closes an idle connection.
    idleMilliseconds: 4_000,
    // A stream of events may be silent between two events.
    stillMilliseconds: 300_000,
    bodyBytes: Number.POSITIVE_INFINITY,
    // `Places` has the limits.
    atOnce: Number.POSITIVE_INFINITY,
    atOncePerService: Number.POSITIVE_INFINITY,
  },
};

export interface AppsOptions {
  limits?: { [Key in keyof AppLimits]?: Partial<AppLimits[Key]> };
}

export function createApps({ limits = {} }: AppsOptions = {}): Apps {
  return new ForwardedApps({
    requests: { ...LIMITS.requests, ...limits.requests },
    sockets: { ...LIMITS.sockets, ...limits.sockets },
    handshakeMilliseconds: limits.handshakeMilliseconds ?? LIMITS.handshakeMilliseconds,
    client: { ...LIMITS.client, ...limits.client },
  });
}

type Visit = Pick<AppRequest, 'ref' | 'account' | 'address'>;

/** Counts what is in flight for visitors, apps and accounts. */
class Places {
  readonly #ofAccounts = new Counts();
  readonly #ofApps = new Counts();
  readonly #ofVisitors = new Counts();
  readonly #account: Share;

  constructor(private readonly limits: PlaceLimits) {
    this.#account = { most: limits.most, perFree: limits.accountPerFree };
  }

  /** Returns a function that frees the place; undefined if there is none. */
  take({ ref, account, address }: Visit): (() => void) | undefined {
    const { ofApp, ofVisitor } = this.limits;
    const visitor = isLoopback(address) ? undefined : `${ref} ${networkOf(address)}`;
    if (this.#ofApps.of(ref) >= ofApp || !this.#ofAccounts.hasRoom(account, this.#account)) return undefined;
    if (visitor !== undefined && this.#ofVisitors.of(visitor) >= ofVisitor) return undefined;
    this.#ofAccounts.add(account);
    this.#ofApps.add(ref);
    if (visitor !== undefined) this.#ofVisitors.add(visitor);
    return () => {
      this.#ofAccounts.remove(account);
      this.#ofApps.remove(ref);
      if (visitor !== undefined) this.#ofVisitors.remove(visitor);
    };
  }
}

class ForwardedApps implements Apps {
  readonly #client: UpstreamClient;
  readonly #requests: Places;
  readonly #socketPlaces: Places;
  /** Open WebSockets, by the ref of their app. */
  readonly #sockets = new Map<string, Set<Duplex>>();

  constructor(private readonly limits: AppLimits) {
    this.#client = new UpstreamClient(limits.client);
    this.#requests = new Places(limits.requests);
    this.#socketPlaces = new Places(limits.sockets);
  }

  forward(request: AppRequest): void {
    const { ref, upstream, target, incoming, outgoing, requestId } = request;
    const free = this.#requests.take(request);
    if (free === undefined) return refuseAs(request, APP_BUSY);
    this.#client
      .forward({
        to: ref,
        address: upstream,
        path: target,
        headers: headersOf(request),
        saysWhoMayRead: true,
        request: { incoming, outgoing },
        onAnswer: (headers) => {
          headers['x-request-id'] = requestId;
        },
      })
      .then(free, (error: Error) => {
        free();
        refuseAs(request, refusalOf(error));
      });
  }

  upgrade(request: AppUpgradeRequest): void {
    const { ref, incoming, socket, requestId } = request;
    const ownHeaders = { 'X-Request-Id': requestId };
    const reject = (refusal: Refusal) => {
      const outgoing = upgradeResponse(socket, incoming, OWN_ORIGIN);
      outgoing.setHeader('X-Request-Id', requestId);
      refuse(outgoing, refusal);
    };
    // The bytes behind the headers would belong to the body for one server, and to the WebSocket for the other.
    if (incoming.method !== 'GET' || hasBody(incoming)) return reject(NO_WEB_SOCKET);
    const free = this.#socketPlaces.take(request);
    if (free === undefined) return reject(APP_BUSY);
    this.#keep(ref, socket);
    socket.once('close', free);
    forwardUpgrade({
      address: request.upstream,
      path: request.target,
      headers: headersOf(request),
      incoming,
      socket,
      head: request.head,
      policy: OWN_ORIGIN,
      ownHeaders,
      handshakeMilliseconds: this.limits.handshakeMilliseconds,
      refusalOf,
    });
  }

  forget(ref: string): void {
    for (const socket of this.#sockets.get(ref) ?? []) socket.destroy();
  }

  closeSockets(): void {
    for (const ref of this.#sockets.keys()) this.forget(ref);
  }

  close(): void {
    this.closeSockets();
    this.#client.close();
  }

  #keep(ref: string, socket: Duplex): void {
    const ofApp = this.#sockets.get(ref) ?? new Set();
    this.#sockets.set(ref, ofApp.add(socket));
    socket.once('close', () => {
      ofApp.delete(socket);
      if (ofApp.size === 0 && this.#sockets.get(ref) === ofApp) this.#sockets.delete(ref);
    });
  }
}

function refuseAs({ outgoing, requestId }: AppRequest, refusal: Refusal): void {
  if (!outgoing.headersSent) outgoing.setHeader('X-Request-Id', requestId);
  refuse(outgoing, refusal);
}

const refusalOf = (error: Error): Refusal => (error instanceof ServiceTooSlow ? APP_TOO_SLOW : APP_DOWN);

/** Returns the headers of a visitor's request. Those that describe the visitor are the platform's. */
function headersOf({ incoming, address, siteUrl, requestId }: Omit<AppRequest, 'outgoing'>): OutgoingHttpHeaders {
  const headers = handedOn(incoming);
  const { protocol, port } = placeOf(siteUrl);
  headers['x-forwarded-for'] = address;
  headers['x-real-ip'] = address;
  headers['x-forwarded-host'] = incoming.headers.host;
  headers['x-forwarded-proto'] = protocol;
  headers['x-forwarded-port'] = port;
  headers['x-request-id'] = requestId;
  return headers;
}

/** Reads protocol and port without `new URL`, which takes a microsecond. */
function placeOf(siteUrl: string): { protocol: string; port: string } {
  const protocol = siteUrl.slice(0, siteUrl.indexOf(':'));
  const port = /:(\d+)\/?$/.exec(siteUrl)?.[1];
  return { protocol, port: port ?? (protocol === 'https' ? '443' : '80') };
}
