/**
 * Realtime where it runs in pods of its own. A project's sockets must all be in one process, as broadcasts and presence are: each
 * project has its pod, chosen by its ref alone, so that every gateway chooses the same. In: requests and sockets whose key was good.
 * Out: what that pod, which looks at the key itself, answers. Called by the gateway as any service.
 */
import { createHash } from 'node:crypto';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Service, ServiceRequest, UpgradeRequest } from '../service.js';
import { answerOn } from './answer-on.js';
import { Carrier, headersFor, type ServiceAddress } from './carrier.js';
import { endToEnd } from './hop.js';
import { refuse, serviceBusy, serviceDown } from './refusals.js';

export interface RemoteRealtimeOptions {
  /** One of each pod: `http://slipway-realtime-0.slipway-realtime.slipway-system.svc:8080`. */
  urls: readonly string[];
  handshakeMilliseconds?: number;
  /** Sockets of all projects together; a pod has its own limits for each. */
  sockets?: number;
}

const HANDSHAKE_MS = 10_000;
const SOCKETS = 20_000;

export function createRemoteRealtime(options: RemoteRealtimeOptions): Service {
  return new RemoteRealtime(options);
}

class RemoteRealtime implements Service {
  readonly #carrier = new Carrier();
  readonly #handshakeMilliseconds: number;
  readonly #mostSockets: number;
  readonly #urls: readonly string[];
  readonly #sockets = new Set<Socket>();

  constructor({ urls, handshakeMilliseconds = HANDSHAKE_MS, sockets = SOCKETS }: RemoteRealtimeOptions) {
    this.#urls = urls;
    this.#handshakeMilliseconds = handshakeMilliseconds;
    this.#mostSockets = sockets;
  }

  handle(request: ServiceRequest): Promise<void> {
    const { ref } = request.tenant;
    return this.#carrier.carry({
      to: `${ref}/realtime`,
      address: this.#addressOf(ref),
      path: pathOf(request),
      headers: withKey(request),
      request,
    });
  }

  upgrade(request: UpgradeRequest): void {
    const { incoming, tenant } = request;
    const socket = request.socket as Socket;
    if (this.#sockets.size >= this.#mostSockets) {
      refuse(answerOn(socket, incoming), serviceBusy('realtime'));
      return;
    }
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    const { connection, upgrade } = incoming.headers;
    const upstream = httpRequest({
      ...this.#addressOf(tenant.ref),
      agent: false,
      path: pathOf(request),
      headers: { ...withKey(request), connection, upgrade },
    });
    const late = setTimeout(() => upstream.destroy(new Error('no answer in time')), this.#handshakeMilliseconds);
    let answered = false;
    const gone = () => upstream.destroy();
    socket.once('close', gone);
    upstream.once('upgrade', (answer, other, head) => {
      clearTimeout(late);
      answered = true;
      socket.off('close', gone);
      join(request, answer, other as Socket, head);
    });
    upstream.once('response', (answer) => {
      clearTimeout(late);
      answered = true;
      passOn(request, answer);
    });
    upstream.once('error', () => {
      clearTimeout(late);
      if (answered || socket.destroyed) socket.destroy();
      else refuse(answerOn(socket, incoming), serviceDown('realtime'));
    });
    upstream.end();
  }

  /** The pod knows of it as this gateway does, and ends the project's sockets itself. */
  async forget(): Promise<void> {}

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#carrier.close();
  }

  #addressOf(ref: string): ServiceAddress {
    const { hostname, port } = new URL(placeOf(ref, this.#urls));
    return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80) };
  }
}

/** Rendezvous hashing: when a pod more or less is named, no other project moves than those of that pod. */
export function placeOf(ref: string, urls: readonly string[]): string {
  const weight = (url: string) => createHash('sha256').update(`${ref}\0${url}`).digest('hex');
  const [first = ''] = urls.length === 1 ? urls : urls.toSorted((a, b) => (weight(a) < weight(b) ? 1 : -1));
  return first;
}

function pathOf({ tenant, path, query }: ServiceRequest | UpgradeRequest): string {
  const place = `/p/${tenant.ref}/realtime/v1${path}`;
  return query === '' ? place : `${place}?${query}`;
}

/** The pod decides anew who calls, from a header, as queries are more often written down. */
function withKey(request: ServiceRequest | UpgradeRequest) {
  const headers = headersFor(request);
  if (headers.apikey === undefined && request.token !== undefined) headers.apikey = request.token;
  return headers;
}

function join({ socket, head }: UpgradeRequest, answer: IncomingMessage, other: Socket, otherHead: Buffer): void {
  const headers: string[] = [];
  for (let at = 0; at < answer.rawHeaders.length; at += 2) {
    headers.push(`${answer.rawHeaders[at]}: ${answer.rawHeaders[at + 1]}\r\n`);
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

/** The pod refuses: its words are the caller's answer. */
function passOn({ socket, incoming }: UpgradeRequest, answer: IncomingMessage): void {
  const outgoing = answerOn(socket, incoming);
  outgoing.writeHead(answer.statusCode as number, endToEnd(answer));
  answer.once('error', () => socket.destroy());
  answer.pipe(outgoing);
}
