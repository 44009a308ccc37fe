/**
 * Forwards a request for a WebSocket to another server. In: the handshake, its socket and the server's address. Out:
 * the server's 101, and from then on bytes in both directions; or the server's rejection, as an ordinary response. Used
 * for services in other pods and on machines, and for containers of apps.
 */
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { OriginPolicy } from '../http/origin-policy.js';
import { endToEnd, isAnswer } from '../http/proxy-headers.js';
import { type Refusal, refuse } from '../http/refusals.js';
import { upgradeResponse } from '../http/upgrade-response.js';
import { connectPinned } from './pinned-connection.js';
import { type ServiceAddress, ServiceTooSlow, ServiceUnreachable } from './upstream-client.js';

export interface ForwardedUpgrade {
  address: ServiceAddress;
  /** Path with the query. */
  path: string;
  /** Headers of the handshake, without Connection and Upgrade. */
  headers: OutgoingHttpHeaders;
  incoming: IncomingMessage;
  socket: Duplex;
  /** Bytes that followed the request's headers. */
  head: Buffer;
  /** Policy for the headers of the response. */
  policy: OriginPolicy;
  /** Headers that replace those of the response. */
  ownHeaders?: Readonly<Record<string, string>>;
  handshakeMilliseconds: number;
  /** Returns the response for a server that is unreachable or silent. */
  refusalOf(error: Error): Refusal;
}

/** Milliseconds without data in the body of a rejection. */
const STILL_MS = 60_000;
/** Milliseconds without data after which TCP checks whether the other end still exists. */
const KEEP_ALIVE_MS = 60_000;
/** Milliseconds to send the rest to one end after the other end was closed. */
const LINGER_MS = 10_000;

export function forwardUpgrade(forwarded: ForwardedUpgrade): void {
  const { address, path, headers, handshakeMilliseconds } = forwarded;
  const socket = forwarded.socket as Socket;
  const handshake = new AbortController();
  const upstream = httpRequest({
    ...address,
    ...connectionTo(address, handshake.signal),
    path,
    headers: { ...headers, connection: 'Upgrade', upgrade: 'websocket' },
  });
  const end = (error?: Error) => {
    upstream.destroy(error);
    // The request has no socket to destroy before the end of a TLS handshake.
    handshake.abort(error);
  };
  const late = setTimeout(
    () => end(new ServiceTooSlow(`no response within ${handshakeMilliseconds} ms`)),
    handshakeMilliseconds,
  );
  let isAnswered = false;
  const fail = (error: Error) => {
    clearTimeout(late);
    if (isAnswered || socket.destroyed) socket.destroy();
    else respond(forwarded, error);
    isAnswered = true;
  };
  const destroy = () => end();
  socket.once('close', destroy);
  upstream.once('upgrade', (answer, other, head) => {
    if (isAnswered || !isWebSocket(answer)) {
      other.destroy();
      return fail(new ServiceUnreachable('it changed to another protocol'));
    }
    clearTimeout(late);
    isAnswered = true;
    socket.off('close', destroy);
    join(forwarded, answer, other as Socket, head);
  });
  upstream.once('response', (answer) => {
    if (!isAnswer(answer)) {
      upstream.destroy();
      return fail(new ServiceUnreachable(`it answered ${answer.statusCode}`));
    }
    clearTimeout(late);
    isAnswered = true;
    passOn(forwarded, answer);
  });
  upstream.once('error', fail);
  upstream.end();
}

const connectionTo = ({ host, port, pin }: ServiceAddress, handshake: AbortSignal) =>
  pin
    ? {
        createConnection: (_: object, opened: (error: Error | null, socket: Duplex) => void) => {
          connectPinned({ host, port, pin, handshake }, opened as Parameters<typeof connectPinned>[1]);
          return undefined;
        },
      }
    : { agent: false };

const isWebSocket = ({ statusCode, headers }: IncomingMessage) =>
  statusCode === 101 && headers.upgrade?.toLowerCase() === 'websocket';

function responseOf({ socket, incoming, policy, ownHeaders = {} }: ForwardedUpgrade) {
  const outgoing = upgradeResponse(socket, incoming, policy);
  for (const name in ownHeaders) outgoing.setHeader(name, ownHeaders[name] as string);
  return outgoing;
}

function respond(forwarded: ForwardedUpgrade, error: Error): void {
  refuse(responseOf(forwarded), forwarded.refusalOf(error));
}

/** The server rejects the upgrade: its response is forwarded. */
function passOn(forwarded: ForwardedUpgrade, answer: IncomingMessage): void {
  const outgoing = responseOf(forwarded);
  const headers = endToEnd(answer);
  for (const name in forwarded.ownHeaders) delete headers[name.toLowerCase()];
  outgoing.writeHead(answer.statusCode as number, headers);
  answer.setTimeout(STILL_MS, () => forwarded.socket.destroy());
  answer.once('error', () => forwarded.socket.destroy());
  answer.pipe(outgoing);
}

function join(forwarded: ForwardedUpgrade, answer: IncomingMessage, other: Socket, otherHead: Buffer): void {
  const { head } = forwarded;
  const socket = forwarded.socket as Socket;
  socket.write(headOf(forwarded, answer));
  if (otherHead.length > 0) socket.write(otherHead);
  if (head.length > 0) other.write(head);
  lead(socket, other);
  lead(other, socket);
}

/** Leads the bytes of one socket to the other, and closes the other after it. */
function lead(from: Socket, to: Socket): void {
  from.setNoDelay(true);
  from.setTimeout(0);
  from.setKeepAlive(true, KEEP_ALIVE_MS);
  from.on('error', () => to.destroy());
  from.once('close', () => {
    // The other end may still have to read the last bytes.
    to.setTimeout(LINGER_MS, () => to.destroy());
    to.destroySoon();
  });
  from.pipe(to);
}

/** Returns the head of the 101 response, with names as the server wrote them. */
function headOf({ policy, ownHeaders = {} }: ForwardedUpgrade, answer: IncomingMessage): string {
  const { rawHeaders } = answer;
  const kept = endToEnd(answer);
  const lines = ['HTTP/1.1 101 Switching Protocols', 'Connection: Upgrade', 'Upgrade: websocket'];
  for (const name in ownHeaders) {
    delete kept[name.toLowerCase()];
    lines.push(`${name}: ${ownHeaders[name]}`);
  }
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    const lower = name.toLowerCase();
    // A 101 has no body (RFC 9110, 8.6).
    if (!Object.hasOwn(kept, lower) || lower === 'content-length') continue;
    const admitted = policy.admit(lower, value);
    if (admitted !== undefined) lines.push(`${name}: ${[admitted].flat().join('')}`);
  }
  return `${lines.join('\r\n')}\r\n\r\n`;
}
