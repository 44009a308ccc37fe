/**
 * Small bodies that leave in one write with their heads: each write is a call of the system, and wakes the other side.
 * Node sends a head and text in one, a head and bytes in two; Latin-1 keeps each byte as it is. Used where answers are
 * small and many.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';

/** Beyond it the copy costs more than a second write. */
export const ONE_WRITE_BYTES = 32 * 1024;

/** Ends a request or an answer whose head has not left, with `body`. */
export function endWith(message: ClientRequest | ServerResponse, body: Buffer): void {
  if (body.length <= ONE_WRITE_BYTES) message.end(body.toString('latin1'), 'latin1');
  else message.end(body);
}

/** A small body that is there at once; undefined, with nothing of it read: it is none, is large, or comes in pieces. */
export function takeSmall(from: IncomingMessage, take: (body: Buffer | undefined) => void): void {
  const length = Number(from.headers['content-length']);
  if (!(length > 0 && length <= ONE_WRITE_BYTES)) return take(undefined);
  from.once('readable', () => take(from.readableLength === length ? (from.read() as Buffer) : undefined));
}

/** A small body leaves so; of another each piece goes on as it comes. */
export const passBody = (from: IncomingMessage, to: ClientRequest | ServerResponse): void =>
  takeSmall(from, (body) => {
    if (body === undefined) return void from.pipe(to);
    endWith(to, body);
    from.resume();
  });
