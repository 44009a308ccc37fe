/**
 * Sends a small body in one write with its head, because each write is a system call that wakes the other side. Node
 * combines a head with text, but not with bytes; Latin-1 keeps each byte. Used for frequent small responses.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';

/** Maximum bytes of a body that is sent with its head. For a larger one, the copy costs more than a second write. */
export const ONE_WRITE_BYTES = 32 * 1024;

/** Ends a message with `body`; its head must not be sent yet. */
export function endWith(message: ClientRequest | ServerResponse, body: Buffer): void {
  if (body.length <= ONE_WRITE_BYTES) message.end(body.toString('latin1'), 'latin1');
  else message.end(body);
}

/** Passes a small body that is buffered already to `take`. Passes undefined, and reads nothing, for any other body. */
export function takeSmall(from: IncomingMessage, take: (body: Buffer | undefined) => void): void {
  const length = Number(from.headers['content-length']);
  if (!(length > 0 && length <= ONE_WRITE_BYTES)) return take(undefined);
  from.once('readable', () => take(from.readableLength === length ? (from.read() as Buffer) : undefined));
}

/** Forwards a body: a small one in one write, a larger one in chunks. */
export const passBody = (from: IncomingMessage, to: ClientRequest | ServerResponse): void =>
  takeSmall(from, (body) => {
    if (body === undefined) return void from.pipe(to);
    endWith(to, body);
    from.resume();
  });
