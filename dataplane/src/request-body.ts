/**
 * Reads a request's body into memory, at most `limit` bytes; used by services that need all of it before they answer.
 */
import type { IncomingMessage } from 'node:http';

/** Most that a request to a project may carry; a larger one is refused with 413. */
export const MAX_BODY_BYTES = 10 * 1024 * 1024;

export class BodyTooLargeError extends Error {
  readonly status = 413;
  constructor(limit: number) {
    super(`the request body is larger than ${limit} bytes`);
  }
}

const EMPTY = Buffer.alloc(0);

export function readBody(incoming: IncomingMessage, limit = MAX_BODY_BYTES): Promise<Buffer> {
  if (incoming.headers['content-length'] === undefined && incoming.headers['transfer-encoding'] === undefined) {
    return Promise.resolve(EMPTY);
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    incoming.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > limit) {
        incoming.removeAllListeners('data');
        incoming.resume();
        reject(new BodyTooLargeError(limit));
        return;
      }
      chunks.push(chunk);
    });
    incoming.once('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    incoming.once('error', reject);
    incoming.once('close', () => {
      if (!incoming.complete) reject(new Error('the client went away before its request was complete'));
    });
  });
}
