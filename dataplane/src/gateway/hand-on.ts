/**
 * Hands whole requests on to one other server, streaming both ways. What says where a request came from is written here, never passed
 * through; while the server is away callers get `unreachable`.
 */
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request, type ServerResponse } from 'node:http';
import { endToEnd, handedOn, hasBody, mayRepeat } from './hop.js';
import { type Refusal, refuse } from './refusals.js';

export interface HandOnOptions {
  to: { socketPath: string } | { host: string; port: number };
  /** On every request. */
  headers: OutgoingHttpHeaders;
  unreachable: Refusal;
}

export function handOn({ to, headers: own, unreachable }: HandOnOptions) {
  const agent = new Agent({ keepAlive: true, maxSockets: 256, maxFreeSockets: 16 });

  function forward(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    more: OutgoingHttpHeaders = {},
    again = true,
  ): void {
    const from = { 'x-forwarded-for': incoming.socket.remoteAddress ?? '' };
    const headers = Object.assign(handedOn(incoming), own, from, more);
    const upstream = request({ ...to, agent, method: incoming.method, path: incoming.url, headers });
    upstream.once('response', (answer) => {
      outgoing.writeHead(answer.statusCode as number, endToEnd(answer));
      answer.once('error', () => outgoing.destroy());
      answer.pipe(outgoing);
      // It answered without the rest of the body: whoever sends it must be able to end, to read the answer, and a connection with
      // half a request on it serves no other.
      answer.once('end', () => {
        if (upstream.writableFinished) return;
        incoming.unpipe(upstream).resume();
        upstream.destroy();
      });
    });
    upstream.once('error', () => {
      // An idle connection may be closed by the server in the moment that it is taken from the agent.
      if (again && upstream.reusedSocket && mayRepeat(incoming) && !outgoing.headersSent && !outgoing.destroyed) {
        forward(incoming, outgoing, more, false);
      } else {
        refuse(outgoing, unreachable);
      }
    });
    upstream.once('close', () => incoming.unpipe(upstream).resume());
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) upstream.destroy();
    });
    if (hasBody(incoming)) incoming.pipe(upstream);
    else upstream.end();
  }

  return {
    forward: (incoming: IncomingMessage, outgoing: ServerResponse, more?: OutgoingHttpHeaders) =>
      forward(incoming, outgoing, more),
    close: () => agent.destroy(),
  };
}
