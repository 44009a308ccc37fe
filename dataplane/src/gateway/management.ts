/**
 * Hands requests for the platform itself on to the API's Unix socket, where there is one, streaming both ways. What says where a request
 * came from is written here, never passed through; when the API is down callers get 502 until it is back.
 */
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request, type ServerResponse } from 'node:http';
import { endToEnd, handedOn, hasBody, mayRepeat } from './hop.js';
import { type Refusal, refuse } from './refusals.js';

export interface Management {
  forward(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): void;
  close(): void;
}

/** Without a socket the API is elsewhere, and whoever looks for it here is told where. */
export function createManagement(socketPath: string | undefined, publicUrl: string): Management {
  return socketPath === undefined ? elsewhere(publicUrl) : behindSocket(socketPath, publicUrl);
}

function elsewhere(publicUrl: string): Management {
  const body = {
    type: 'about:blank',
    title: 'Not Found',
    status: 404,
    detail: `No project has this address. The management API is at ${publicUrl}.`,
  };
  const headers = { 'Content-Type': 'application/problem+json' };
  return {
    forward: (incoming, outgoing) => {
      incoming.resume();
      refuse(outgoing, { status: 404, body, headers });
    },
    close: () => undefined,
  };
}

function behindSocket(socketPath: string, publicUrl: string): Management {
  const agent = new Agent({ keepAlive: true, maxSockets: 256, maxFreeSockets: 16 });
  const { host, protocol } = new URL(publicUrl);
  const origin = { 'x-forwarded-host': host, 'x-forwarded-proto': protocol.slice(0, -1) };

  function forward(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string, again = true): void {
    const headers = requestHeaders(incoming, origin, requestId);
    const upstream = request({ socketPath, agent, method: incoming.method, path: incoming.url, headers });
    upstream.once('response', (answer) => {
      outgoing.writeHead(answer.statusCode as number, endToEnd(answer));
      answer.once('error', () => outgoing.destroy());
      answer.pipe(outgoing);
      // The API answered without the rest of the body: whoever sends it must be able to end, to read the answer, and a
      // connection with half a request on it serves no other.
      answer.once('end', () => {
        if (upstream.writableFinished) return;
        incoming.unpipe(upstream).resume();
        upstream.destroy();
      });
    });
    upstream.once('error', () => {
      // An idle connection may be closed by the API in the moment that it is taken from the agent.
      if (again && upstream.reusedSocket && mayRepeat(incoming) && !outgoing.headersSent && !outgoing.destroyed) {
        forward(incoming, outgoing, requestId, false);
      } else {
        refuse(outgoing, UNREACHABLE);
      }
    });
    upstream.once('close', () => incoming.unpipe(upstream).resume());
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) upstream.destroy();
    });
    if (hasBody(incoming)) incoming.pipe(upstream);
    else upstream.end();
  }

  return { forward, close: () => agent.destroy() };
}

function requestHeaders(
  incoming: IncomingMessage,
  origin: OutgoingHttpHeaders,
  requestId: string,
): OutgoingHttpHeaders {
  const from = { 'x-forwarded-for': incoming.socket.remoteAddress ?? '', 'x-request-id': requestId };
  return Object.assign(handedOn(incoming), origin, from);
}

const UNREACHABLE: Refusal = {
  status: 502,
  body: {
    type: 'about:blank',
    title: 'Bad Gateway',
    status: 502,
    detail: 'The management API does not answer; it may be starting. Try again in a moment.',
  },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
};
