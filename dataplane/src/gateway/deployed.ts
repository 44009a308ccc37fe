/**
 * Services that run in pods of a project's own. In: requests whose key was good. Out: what the pod answers, streamed both ways.
 * A pod that is away costs its callers a 502 until it answers again; one that stands still, a 504. Called by the gateway as any service.
 */
import {
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import { DEPLOYED_SERVICES, namespaceOf } from '@slipway/crds';
import { BodyTooLargeError, MAX_BODY_BYTES } from '../request-body.js';
import type { Service, ServiceRequest } from '../service.js';
import { endToEnd, handedOn, hasBody, mayRepeat } from './hop.js';
import { KeptConnections } from './kept-connections.js';

export type DeployedName = keyof typeof DEPLOYED_SERVICES;

export interface ServiceAddress {
  host: string;
  port: number;
}

export interface DeployedLimits {
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

export interface DeployedOptions {
  /** Where a service of a project answers; by default at its name in the cluster. */
  serviceAddress?: ((ref: string, service: DeployedName) => ServiceAddress) | undefined;
  limits?: Partial<DeployedLimits>;
}

const LIMITS: DeployedLimits = {
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

const inCluster = (ref: string, service: DeployedName): ServiceAddress => ({
  host: `${DEPLOYED_SERVICES[service].service}.${namespaceOf(ref)}.svc`,
  port: DEPLOYED_SERVICES[service].port,
});

/** One set of connections for all services of all projects. */
export function createDeployedServices(options: DeployedOptions = {}): Record<DeployedName, Service> {
  const limits = { ...LIMITS, ...options.limits };
  const address = options.serviceAddress ?? inCluster;
  const connections = new KeptConnections(limits.idleConnections, limits.idleMilliseconds);
  const underWay = new UnderWay(limits);
  const service = (name: DeployedName): Service => ({
    handle: async (request) => {
      const leave = underWay.enter(`${request.tenant.ref}/${name}`);
      try {
        await carry({ name, request, connections, limits, address: address(request.tenant.ref, name) });
      } finally {
        leave();
      }
    },
    // What is under way comes to its end, and what is idle is closed soon.
    forget: async () => undefined,
    close: async () => connections.destroy(),
  });
  return { auth: service('auth'), rest: service('rest') };
}

class UnderWay {
  readonly #counts = new Map<string, number>();
  #all = 0;

  constructor(private readonly limits: DeployedLimits) {}

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

interface Carried {
  name: DeployedName;
  request: ServiceRequest;
  connections: KeptConnections;
  limits: DeployedLimits;
  address: ServiceAddress;
}

/** Resolves when the answer has left, or nobody waits for it any more. */
function carry(carried: Carried): Promise<void> {
  return new Promise((resolve, reject) => attempt(carried, resolve, reject, true));
}

function attempt(carried: Carried, resolve: () => void, reject: (error: Error) => void, again: boolean): void {
  const { name, request, connections, limits, address } = carried;
  const { incoming, outgoing, path, query } = request;
  const upstream = httpRequest({
    ...address,
    agent: connections,
    method: incoming.method,
    path: query === '' ? path : `${path}?${query}`,
    headers: headersOf(name, request),
    timeout: limits.stillMilliseconds,
  });
  watchTime(upstream, limits);
  upstream.once('response', (answer) => passBack(answer, upstream, incoming, outgoing));
  upstream.once('error', (error) => {
    if (again && upstream.reusedSocket && mayRepeat(incoming) && !outgoing.headersSent && !outgoing.destroyed) {
      attempt(carried, resolve, reject, false);
    } else if (outgoing.headersSent) {
      outgoing.destroy();
      resolve();
    } else {
      reject(isOurs(error) ? error : new ServiceUnreachable(`${name} of ${request.tenant.ref}: ${error.message}`));
    }
  });
  // Whoever still sends a body must be able to end, to read the answer.
  upstream.once('close', () => incoming.unpipe(upstream).resume());
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) upstream.destroy();
    resolve();
  });
  if (hasBody(incoming)) send(incoming, upstream, limits.bodyBytes);
  else upstream.end();
}

const isOurs = (error: Error): boolean => error instanceof ServiceTooSlow || error instanceof BodyTooLargeError;

function watchTime(upstream: ClientRequest, { connectMilliseconds, stillMilliseconds }: DeployedLimits): void {
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

function passBack(
  answer: IncomingMessage,
  upstream: ClientRequest,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): void {
  const headers = endToEnd(answer);
  for (const name in headers) {
    // The gateway has said who may read it, and named the request.
    if (name.startsWith('access-control-') || name === 'x-request-id') delete headers[name];
  }
  outgoing.writeHead(answer.statusCode as number, headers);
  answer.once('error', () => outgoing.destroy());
  answer.pipe(outgoing);
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

/** The project's key stays with us; PostgREST, which knows of none, is told by a token who calls. */
function headersOf(name: DeployedName, { incoming, tenant, token, address, requestId }: ServiceRequest) {
  const headers: OutgoingHttpHeaders = handedOn(incoming);
  delete headers.host;
  delete headers.apikey;
  if (name === 'rest' && token !== undefined) headers.authorization = `Bearer ${token}`;
  const { protocol, host, port } = new URL(tenant.url);
  headers['x-forwarded-for'] = address;
  headers['x-forwarded-host'] = host;
  headers['x-forwarded-proto'] = protocol.slice(0, -1);
  headers['x-forwarded-port'] = port || (protocol === 'https:' ? '443' : '80');
  headers['x-request-id'] = requestId;
  return headers;
}
