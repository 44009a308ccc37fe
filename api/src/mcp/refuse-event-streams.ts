/** Rejects a GET, by which a client requests a stream of server events, with the 405 that the protocol prescribes. */
import type { IncomingMessage, ServerResponse } from 'node:http';

export function refuseEventStreams(request: IncomingMessage, response: ServerResponse, next: () => void): void {
  const { accept = '', authorization } = request.headers;
  if (authorization !== undefined || !accept.includes('text/event-stream')) {
    next();
    return;
  }
  response.writeHead(405, { allow: 'GET, POST', 'content-type': 'application/json' });
  response.end(
    JSON.stringify({
      jsonrpc: '2.0',
      error: { code: -32_000, message: 'This server sends no events: use POST.' },
      id: null,
    }),
  );
}
