/**
 * Carries requests to services in other pods and their answers back, streamed both ways, over kept connections. In:
 * where, as what path and with which headers. What is away, mute or has too much to do is an error of a named kind.
 * Used by all that is elsewhere.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { BodyTooLargeError, MAX_BODY_BYTES } from '../request-body.js';
import type { ServiceRequest, UpgradeRequest } from '../service.js';
import { passBody } from '../small-body.js';
import { IdleBoundedAgent } from './idle-bounded-agent.js';
import { endToEnd, handedOn, hasBody, isAnswer, mayRepeat } from './proxy-headers.js';

export interface ServiceAddress {
  host: string;
  port: number;
}

export interface UpstreamLimits {
  /** Requests under way at once, of one service of one project and of all; more are told to come again. */
  atOncePerService: number;
  atOnce: number;
  /** Connections that wait for a next request, in all, and for how long. */
  idleConnections: number;
  idleMilliseconds: number;
  connectMilliseconds: number;
  /** Nothing came and nothing went for so long. */
  stillMilliseconds: number;
  bodyBytes: number;
}

const LIMITS: UpstreamLimits = {
  atOncePerService: 256,
  atOnce: 2048,
  idleConnections: 512,
  // Pods close what is idle after half a minute at the earliest.
  idleMilliseconds: 10_000,
  connectMilliseconds: 5_000,
  stillMilliseconds: 60_000,
  bodyBytes: MAX_BODY_BYTES,
};

export class ServiceUnreachable extends Error {}
export class ServiceTooSlow extends Error {}
export class ServiceBusy extends Error {}

export interface ForwardRequest {
  /** The key of the in-flight limit, and the name in errors: `shop/rest`. */
  to: string;
  address: ServiceAddress | { socketPath: string };
  /** With the query. */
  path: string;
  headers: OutgoingHttpHeaders;
  /** Its own word on which origins may read an answer counts, not the gateway's. */
  saysWhoMayRead?: boolean;
  request: Pick<ServiceRequest, 'incoming' | 'outgoing'>;
}

export class UpstreamClient {
  readonly #limits: UpstreamLimits;
  readonly #connections: IdleBoundedAgent;
  readonly #underWay: UnderWay;

  constructor(limits: Partial<UpstreamLimits> = {}) {
    this.#limits = { ...LIMITS, ...limits };
    this.#connections = new IdleBoundedAgent(this.#limits.idleConnections, this.#limits.idleMilliseconds);
    this.#underWay = new UnderWay(this.#limits);
  }

  /** Resolves when the answer has left, or nobody waits for it any more. */
  async forward(carried: ForwardRequest): Promise<void> {
    const leave = this.#underWay.enter(carried.to);
    try {
      await new Promise<void>((resolve, reject) =>
        attempt(carried, this.#connections, this.#limits, resolve, reject, true),
      );
    } finally {
      leave();
    }
  }

  close(): void {
    this.#connections.destroy();
  }
}

class UnderWay {
  readonly #counts = new Map<string, number>();
  #all = 0;

  constructor(private readonly limits: UpstreamLimits) {}

  enter(key: string): () => void {
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.limits.atOncePerService || this.#all >= this.limits.atOnce) {
      throw new ServiceBusy(`${count} requests are under way to ${key}, ${this.#all} in all`);
    }
    this.#counts.set(key, count + 1);
    this.#all++;
    return () => this.#leave(key);
  }

  #leave(key: string): void {
    const left = (this.#counts.get(key) ?? 1) - 1;
    if (left === 0) this.#counts.delete(key);
    else this.#counts.set(key, left);
    this.#all--;
  }
}

function attempt(
  carried: ForwardRequest,
  connections: IdleBoundedAgent,
  limits: UpstreamLimits,
  resolve: () => void,
  reject: (error: Error) => void,
  again: boolean,
): void {
  const { to, address, path, headers, request } = carried;
  const { incoming, outgoing } = request;
  const upstream = httpRequest({
    ...address,
    agent: connections,
    method: incoming.method,
    path,
    headers,
    timeout: limits.stillMilliseconds,
  });
  watchTime(upstream, limits);
  let answered = false;
  upstream.once('response', (answer) => {
    answered = true;
    // Who was too slow to send has been told so.
    if (isAnswer(answer) && !outgoing.headersSent) {
      passBack(answer, upstream, carried);
      return;
    }
    upstream.destroy();
    if (!outgoing.headersSent) reject(new ServiceUnreachable(`${to}: it answered ${answer.statusCode}`));
  });
  // Without this nobody would hear that the connection is gone.
  upstream.once('upgrade', (_, socket) => {
    socket.destroy();
    reject(new ServiceUnreachable(`${to}: it changed the protocol, which nobody had asked for`));
  });
  upstream.once('error', (error) => {
    if (again && upstream.reusedSocket && mayRepeat(incoming) && !outgoing.headersSent && !outgoing.destroyed) {
      attempt(carried, connections, limits, resolve, reject, false);
    } else if (outgoing.headersSent) {
      outgoing.destroy();
      resolve();
    } else {
      reject(isOurs(error) ? error : new ServiceUnreachable(`${to}: ${error.message}`));
    }
  });
  // Whoever still sends a body must be able to end, to read the answer.
  upstream.once('close', () => incoming.unpipe(upstream).resume());
  outgoing.once('close', () => {
    if (!outgoing.writableFinished || !answered) upstream.destroy();
    resolve();
  });
  if (hasBody(incoming)) send(incoming, upstream, limits.bodyBytes);
  else upstream.end();
}

const isOurs = (error: Error): boolean => error instanceof ServiceTooSlow || error instanceof BodyTooLargeError;

function watchTime(upstream: ClientRequest, { connectMilliseconds, stillMilliseconds }: UpstreamLimits): void {
  upstream.once('timeout', () => upstream.destroy(new ServiceTooSlow(`nothing was heard for ${stillMilliseconds} ms`)));
  upstream.once('socket', (socket) => {
    if (!socket.connecting) return;
    const late = setTimeout(
      () => upstream.destroy(new ServiceTooSlow(`no connection within ${connectMilliseconds} ms`)),
      connectMilliseconds,
    );
    const stop = () => clearTimeout(late);
    socket.once('connect', stop);
    upstream.once('close', stop);
  });
}

/** A body whose length was announced was looked at before; the others are counted as they pass. */
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
    // The gateway may have named the request, and said who may read it.
    const isOurs =
      (name === 'x-request-id' && outgoing.hasHeader(name)) ||
      (name.startsWith('access-control-') && !carried.saysWhoMayRead);
    if (isOurs) delete headers[name];
  }
  outgoing.writeHead(answer.statusCode as number, headers);
  answer.once('error', () => outgoing.destroy());
  passBody(answer, outgoing);
  // The headers may be all for a while; those that come with a body leave in one write with it.
  setImmediate(() => {
    if (!outgoing.writableEnded) outgoing.flushHeaders();
  });
  // Answered without the rest of the body: a connection with half a request on it serves no other.
  answer.once('end', () => {
    if (upstream.writableFinished) return;
    incoming.unpipe(upstream).resume();
    upstream.destroy();
  });
}

/** A request's headers, with what says where it came from written by us. */
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
