/**
 * HTTP client for services in other pods and on machines, streaming both ways, with reused connections. In: target,
 * path and headers. Out: the response, or an error whose kind says whether the upstream is unavailable, silent or busy.
 * Used for all services that run elsewhere.
 */
import type { EventEmitter } from 'node:events';
import { type ClientRequest, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { ConcurrencyLimit } from '@slipway/program';
import { endToEnd, handedOn, hasBody, isAnswer, mayRepeat } from '../http/proxy-headers.js';
import { BodyTooLargeError, MAX_BODY_BYTES } from '../http/request-body.js';
import { passBody } from '../http/small-body.js';
import type { ServiceRequest, UpgradeRequest } from '../services/service.js';
import { IdleBoundedAgent } from './idle-bounded-agent.js';
import type { Pin } from './pinned-connection.js';

export interface ServiceAddress {
  host: string;
  port: number;
  /** Set for TLS to a server with exactly this certificate; undefined: plain HTTP. */
  pin?: Pin | undefined;
}

export interface UpstreamLimits {
  /** Requests in flight of one service of one project, and of all; further ones get 503 with Retry-After. */
  atOncePerService: number;
  atOnce: number;
  /**
   * Places that one service of one project may use for each free one: with 1/4, one alone leaves four fifths to others.
   * Infinity: as many as `atOncePerService`.
   */
  perFreePlace: number;
  /** Most idle connections in all, and their timeout. */
  idleConnections: number;
  idleMilliseconds: number;
  connectMilliseconds: number;
  /** Milliseconds without any byte in either direction. */
  stillMilliseconds: number;
  bodyBytes: number;
}

const LIMITS: UpstreamLimits = {
  atOncePerService: 256,
  atOnce: 2048,
  perFreePlace: Number.POSITIVE_INFINITY,
  idleConnections: 512,
  // Pods close idle connections after half a minute at the earliest.
  idleMilliseconds: 10_000,
  connectMilliseconds: 5_000,
  stillMilliseconds: 60_000,
  bodyBytes: MAX_BODY_BYTES,
};

export class ServiceUnreachable extends Error {}
export class ServiceTooSlow extends Error {}
export class ServiceBusy extends Error {}

export interface ForwardRequest {
  /** Key of the in-flight limit, and name in errors, such as `shop/rest`. */
  to: string;
  address: ServiceAddress | { socketPath: string };
  /** Path with the query. */
  path: string;
  headers: OutgoingHttpHeaders;
  /** True if the upstream sets its own CORS headers, which then replace the gateway's. */
  saysWhoMayRead?: boolean;
  request: Pick<ServiceRequest, 'incoming' | 'outgoing'>;
  /** Called with the headers of the response, which it may change, before they are forwarded. */
  onAnswer?: ((headers: OutgoingHttpHeaders) => void) | undefined;
}

export class UpstreamClient {
  readonly #limits: UpstreamLimits;
  readonly #connections: IdleBoundedAgent;
  readonly #underWay: ConcurrencyLimit;

  constructor(limits: Partial<UpstreamLimits> = {}) {
    this.#limits = { ...LIMITS, ...limits };
    this.#connections = new IdleBoundedAgent(this.#limits.idleConnections, this.#limits.idleMilliseconds);
    const { atOnce: most, atOncePerService: ofOne, perFreePlace: perFree } = this.#limits;
    this.#underWay = new ConcurrencyLimit({ most, ofOne, perFree }, (_, key) => this.#busy(key));
  }

  /** Resolves when the response was sent, or its client has disconnected. */
  forward(carried: ForwardRequest): Promise<void> {
    return this.#underWay.run(
      carried.to,
      () =>
        new Promise((resolve, reject) => {
          const by = { connections: this.#connections, limits: this.#limits };
          attempt(carried, by, { resolve, reject }, true);
        }),
    );
  }

  /** Closes the connections with the owner's pin. Requests on them fail, and are not repeated. */
  closePinned(owner: string): void {
    this.#connections.closePinned(owner, new ServiceUnreachable(`${owner}: its connections were closed`));
  }

  close(): void {
    this.#connections.destroy();
  }

  #busy(key: string): ServiceBusy {
    const { running } = this.#underWay;
    return new ServiceBusy(`${this.#underWay.runningOf(key)} requests are under way to ${key}, ${running} in all`);
  }
}

function attempt(
  carried: ForwardRequest,
  by: { connections: IdleBoundedAgent; limits: UpstreamLimits },
  { resolve, reject }: { resolve: () => void; reject: (error: Error) => void },
  again: boolean,
): void {
  const { connections, limits } = by;
  const { to, address, path, headers, request } = carried;
  const { incoming, outgoing } = request;
  const handshake = 'pin' in address && address.pin ? new AbortController() : undefined;
  const upstream = httpRequest({
    ...address,
    ...(handshake && { handshake: handshake.signal }),
    agent: connections,
    method: incoming.method,
    path,
    headers,
    timeout: limits.stillMilliseconds,
  });
  watchTime(upstream, limits, handshake);
  let answered = false;
  upstream.once('response', (answer) => {
    answered = true;
    // A client that sent too slowly already has its response.
    if (isAnswer(answer) && !outgoing.headersSent) {
      passBack(answer, upstream, carried);
      return;
    }
    upstream.destroy();
    if (!outgoing.headersSent) reject(new ServiceUnreachable(`${to}: it answered ${answer.statusCode}`));
  });
  // Resumed, because otherwise no listener would notice that the connection is closed.
  upstream.once('upgrade', (_, socket) => {
    socket.destroy();
    reject(new ServiceUnreachable(`${to}: it changed the protocol without a request`));
  });
  upstream.once('error', (error) => {
    if (
      again &&
      !isOurs(error) &&
      upstream.reusedSocket &&
      mayRepeat(incoming) &&
      !outgoing.headersSent &&
      !outgoing.destroyed
    ) {
      attempt(carried, by, { resolve, reject }, false);
    } else if (outgoing.headersSent) {
      outgoing.destroy();
      resolve();
    } else {
      reject(isOurs(error) ? error : new ServiceUnreachable(`${to}: ${error.message}`));
    }
  });
  // A client that still sends a body must be able to end it, to read the response.
  upstream.once('close', () => incoming.unpipe(upstream).resume());
  outgoing.once('close', () => {
    if (!outgoing.writableFinished || !answered) {
      upstream.destroy();
      // The request has no socket to destroy before the end of a handshake.
      handshake?.abort(new ServiceUnreachable(`${to}: the caller disconnected`));
    }
    resolve();
  });
  if (hasBody(incoming)) send(incoming, upstream, limits.bodyBytes);
  else upstream.end();
}

const isOurs = (error: Error): boolean =>
  error instanceof ServiceTooSlow || error instanceof BodyTooLargeError || error instanceof ServiceUnreachable;

function watchTime(
  upstream: ClientRequest,
  { connectMilliseconds, stillMilliseconds }: UpstreamLimits,
  handshake: AbortController | undefined,
): void {
  upstream.once('timeout', () => upstream.destroy(new ServiceTooSlow(`no data for ${stillMilliseconds} ms`)));
  const limitUntil = (emitter: EventEmitter, event: string) => {
    const late = setTimeout(() => {
      const error = new ServiceTooSlow(`no connection within ${connectMilliseconds} ms`);
      upstream.destroy(error);
      handshake?.abort(error);
    }, connectMilliseconds);
    const stop = () => clearTimeout(late);
    emitter.once(event, stop);
    upstream.once('close', stop);
  };
  // The request gets its socket after the handshake.
  if (handshake) return limitUntil(upstream, 'socket');
  upstream.once('socket', (socket) => {
    if (socket.connecting) limitUntil(socket, 'connect');
  });
}

/** Counts a body without a length; one with a length was checked before. */
function send(incoming: IncomingMessage, upstream: ClientRequest, most: number): void {
  let bytes = 0;
  if (incoming.headers['content-length'] === undefined) {
    incoming.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > most) upstream.destroy(new BodyTooLargeError(most));
    });
  }
  incoming.pipe(upstream);
}

function passBack(answer: IncomingMessage, upstream: ClientRequest, carried: ForwardRequest): void {
  const { incoming, outgoing } = carried.request;
  const headers = endToEnd(answer);
  for (const name in headers) {
    // The gateway may have set the request id and CORS headers already.
    const isOurs =
      (name === 'x-request-id' && outgoing.hasHeader(name)) ||
      (name.startsWith('access-control-') && !carried.saysWhoMayRead);
    if (isOurs) delete headers[name];
  }
  carried.onAnswer?.(headers);
  outgoing.writeHead(answer.statusCode as number, headers);
  answer.once('error', () => outgoing.destroy());
  passBody(answer, outgoing);
  // Only the headers may arrive for a while. A body that arrives with them is sent in one write.
  setImmediate(() => {
    if (!outgoing.writableEnded) outgoing.flushHeaders();
  });
  // Answered before the end of the body: a connection with half a request on it can't be reused.
  answer.once('end', () => {
    if (upstream.writableFinished) return;
    incoming.unpipe(upstream).resume();
    upstream.destroy();
  });
}

/** Returns a request's headers. Those with the client's address and host are set by the data plane. */
export function headersFor({
  incoming,
  tenant,
  address,
  requestId,
}: ServiceRequest | UpgradeRequest): OutgoingHttpHeaders {
  const headers = handedOn(incoming);
  delete headers.host;
  const { protocol, host, port } = new URL(tenant.url);
  headers['x-forwarded-for'] = address;
  headers['x-forwarded-host'] = host;
  headers['x-forwarded-proto'] = protocol.slice(0, -1);
  headers['x-forwarded-port'] = port || (protocol === 'https:' ? '443' : '80');
  headers['x-request-id'] = requestId;
  return headers;
}
