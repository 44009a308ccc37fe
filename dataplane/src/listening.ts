/** Where a server listens, and how it stops: both for the data plane and for services that run alone. */
import { rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Requests under way when it is told to stop may take this long to end. */
const PATIENCE_MS = 5_000;

/** `at`: `host:port`, or the path of a Unix socket. Resolves with a URL, or that path. */
export async function listen(server: Server, at: string): Promise<string> {
  // A socket's file outlives the process that made it.
  if (at.startsWith('/')) await rm(at, { force: true });
  const colon = at.lastIndexOf(':');
  const options = at.startsWith('/')
    ? { path: at }
    : { host: at.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(at.slice(colon + 1)) };
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

export async function endRequests(server: Server): Promise<void> {
  if (!server.listening) return;
  const ended = new Promise((resolve) => server.close(resolve));
  server.closeIdleConnections();
  const patience = setTimeout(() => server.closeAllConnections(), PATIENCE_MS);
  await ended;
  clearTimeout(patience);
}
