/** Starts and stops a server. */
import { rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo, Server as NetServer } from 'node:net';

/** Maximum milliseconds for requests that are in flight when the server stops. */
const PATIENCE_MS = 4_000;

/** Starts to listen. `at`: `host:port`, or the path of a Unix socket. Resolves with a URL, or that path. */
export async function listen(server: NetServer, at: string): Promise<string> {
  // A socket's file outlives the process that created it.
  if (at.startsWith('/')) await rm(at, { force: true });
  const options = listenOptions(at);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address() as AddressInfo | string;
  if (typeof address === 'string') return address;
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}

/** Returns the listen options of `host:port`, whose host may be an IPv6 address in brackets, or of a socket path. */
export function listenOptions(at: string): { path: string } | { host: string; port: number } {
  if (at.startsWith('/')) return { path: at };
  const colon = at.lastIndexOf(':');
  return { host: at.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(at.slice(colon + 1)) };
}

interface Front extends NetServer {
  closeAllConnections(): void;
}

/** `fronts`: servers that accept connections for it, such as one of TLS. Requests through them are waited for too. */
export async function endRequests(server: Server, ...fronts: Front[]): Promise<void> {
  if (!server.listening) return;
  const all = [server, ...fronts];
  const ended = Promise.all(all.map((each) => new Promise((resolve) => each.close(resolve))));
  server.closeIdleConnections();
  const patience = setTimeout(() => {
    for (const each of all) each.closeAllConnections();
  }, PATIENCE_MS);
  await ended;
  clearTimeout(patience);
}
