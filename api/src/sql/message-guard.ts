import type { Socket } from 'node:net';

const HEADER = 5;

/**
 * Destroys `socket` when the server announces a message longer than `limits.message` bytes, or has sent more than
 * `limits.all`. One value may be a gigabyte, which the protocol's parser would buffer; rows and notices may be endless.
 * Attach it before the parser reads the socket.
 */
export function guardMessages(socket: Socket, limits: { message: number; all: number }): void {
  const header = Buffer.alloc(HEADER);
  let have = 0;
  let body = 0;
  let all = 0;
  socket.on('data', (chunk: Buffer) => {
    all += chunk.length;
    if (all > limits.all) {
      socket.destroy(new TooMuchReceived());
      return;
    }
    let at = 0;
    while (at < chunk.length) {
      if (body > 0) {
        const skipped = Math.min(body, chunk.length - at);
        body -= skipped;
        at += skipped;
        continue;
      }
      const copied = chunk.copy(header, have, at, Math.min(chunk.length, at + HEADER - have));
      have += copied;
      at += copied;
      if (have < HEADER) return;
      have = 0;
      // The length includes itself, but not the letter before it.
      body = header.readInt32BE(1) - 4;
      if (body > limits.message) {
        socket.destroy(new TooMuchReceived());
        return;
      }
    }
  });
}

export class TooMuchReceived extends Error {}
