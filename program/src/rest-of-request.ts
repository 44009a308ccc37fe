/** Reads and drops the remaining bytes of a request whose response was sent early. */
import type { IncomingMessage } from 'node:http';

/** Milliseconds in which remaining bytes are read. A client that sends more may lose the response. */
const PATIENCE_MS = 2_000;

/**
 * Resolves when the request has ended or its client has given up, and after 2 s at the latest. End the response after
 * it: a connection that is closed while its client still writes is reset, and takes the response along (RFC 9112, 9.6).
 */
export function dropRest(incoming: IncomingMessage): Promise<void> {
  incoming.resume();
  if (incoming.complete || incoming.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const late = setTimeout(resolve, PATIENCE_MS).unref();
    for (const event of ['end', 'close'])
      incoming.once(event, () => {
        clearTimeout(late);
        resolve();
      });
  });
}
