/**
 * PostgREST's admin server: `/live` while the process serves, `/ready` once its database has answered and for as long
 * as it did last. In: GETs of probes. Out: 200 or 503. Started by the REST program beside its own server.
 */
import { createServer, type Server, type ServerResponse } from 'node:http';

/** A request that needs the schema, and therefore the database where the schema is not known to be current. */
const ASK = { method: 'OPTIONS', signal: undefined } as const;
const PATIENCE_MS = 2_000;

/** `service`: the server whose answers tell; `url`: where it listens. */
export function createProbes(service: Server, url: string): Server {
  let reached = false;
  service.on('request', (_, outgoing: ServerResponse) => {
    // Asked too seldom to know, or away: 503 is what REST answers without its database.
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
