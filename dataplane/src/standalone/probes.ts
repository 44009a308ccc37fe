/**
 * PostgREST's admin server: `/live` returns 200 while the process serves, and `/ready` while its last request to the
 * database succeeded. In: requests of probes. Out: 200 or 503. Started by the REST program beside its own server.
 */
import { createServer, type Server, type ServerResponse } from 'node:http';

/** Request that needs the schema, and thus the database, unless a current schema is cached. */
const ASK = { method: 'OPTIONS', signal: undefined } as const;
const PATIENCE_MS = 2_000;

/** `service` is the probed server, `url` its address. */
export function createProbes(service: Server, url: string): Server {
  let reached = false;
  service.on('request', (_, outgoing: ServerResponse) => {
    // If the last request failed, sends one to find out: REST responds 503 without its database.
    outgoing.once('finish', () => {
      reached = outgoing.statusCode < 500 ? reached || outgoing.statusCode < 400 : false;
    });
  });
  const ready = async () => {
    if (!reached) await fetch(url, { ...ASK, signal: AbortSignal.timeout(PATIENCE_MS) }).catch(() => undefined);
    return reached;
  };
  return createServer((incoming, outgoing) => {
    const end = (status: number) => outgoing.writeHead(status, { 'Content-Length': '0' }).end();
    if (incoming.url === '/live') end(200);
    else if (incoming.url === '/ready') void ready().then((is) => end(is ? 200 : 503));
    else end(404);
  });
}
