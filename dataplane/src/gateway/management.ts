/**
 * Hands requests for the platform itself on to the API's Unix socket, streaming both ways. What says where a request
 * came from is written here, never passed through; when the API is down callers get 502 until it is back.
 */
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request, type ServerResponse } from 'node:http';

export interface Management {
  forward(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): void;
  close(): void;
}

const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

export function createManagement(socketPath: string, publicUrl: string): Management {
  const agent = new Agent({ keepAlive: true, maxSockets: 256, maxFreeSockets: 16 });
  const { host, protocol } = new URL(publicUrl);
  const origin = { 'x-forwarded-host': host, 'x-forwarded-proto': protocol.slice(0, -1) };

  function forward(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string, again = true): void {
    const headers = requestHeaders(incoming, origin, requestId);
    const hasBody = incoming.headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
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
      if (again && upstream.reusedSocket && !hasBody && !outgoing.headersSent && !outgoing.destroyed) {
        forward(incoming, outgoing, requestId, false);
      } else {
        answerUnreachable(outgoing);
      }
    });
    upstream.once('close', () => incoming.unpipe(upstream).resume());
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) upstream.destroy();
    });
    if (hasBody) incoming.pipe(upstream);
    else upstream.end();
  }

  return { forward, close: () => agent.destroy() };
}

function requestHeaders(
  incoming: IncomingMessage,
  origin: OutgoingHttpHeaders,
  requestId: string,
): OutgoingHttpHeaders {
  const headers = endToEnd(incoming);
  for (const name of Object.keys(headers)) {
    if (name === 'forwarded' || name.startsWith('x-forwarded-') || name === 'x-real-ip') delete headers[name];
  }
  if (incoming.headers['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked';
  return Object.assign(headers, origin, {
    'x-forwarded-for': incoming.socket.remoteAddress ?? '',
    'x-request-id': requestId,
  });
}

/** All headers but those that belong to one connection. */
function endToEnd(message: IncomingMessage): OutgoingHttpHeaders {
  const named = message.headers.connection?.toLowerCase().split(/\s*,\s*/) ?? [];
  const headers: OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(message.headers)) {
    if (!HOP_BY_HOP.has(name) && !named.includes(name)) headers[name] = value;
  }
  return headers;
}

function answerUnreachable(outgoing: ServerResponse): void {
  if (outgoing.headersSent) {
    outgoing.destroy();
    return;
  }
  const body = JSON.stringify({
    type: 'about:blank',
    title: 'Bad Gateway',
    status: 502,
    detail: 'The management API does not answer; it may be starting. Try again in a moment.',
  });
  outgoing.writeHead(502, {
    'Content-Type': 'application/problem+json',
    'Content-Length': Buffer.byteLength(body),
    'Retry-After': '1',
  });
  outgoing.end(body);
}
