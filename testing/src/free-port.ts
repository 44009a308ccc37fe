import { createServer } from 'node:net';

/**
 * Returns the first of `inARow` consecutive free ports. They are below the range from which the system assigns ports to
 * sockets that request any port.
 */
export async function freePort(inARow = 1): Promise<number> {
  for (;;) {
    const first = 20_000 + Math.floor(Math.random() * 12_000);
    const free = await Promise.all(Array.from({ length: inARow }, (_, at) => isFreePort(first + at)));
    if (free.every(Boolean)) return first;
  }
}

/** True if no socket listens at the port of 127.0.0.1. */
export function isFreePort(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.on('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
