/**
 * Copies bytes from a source to a target. The memory of each chunk is released as soon as the chunk is written;
 * otherwise every 64 MB would cause a full garbage collection.
 */
import { type Readable, Transform, type Writable } from 'node:stream';
import { tooLarge } from '../errors.js';

/** Copies all of `source`, ends `target`, and returns the length. Fails if either fails. */
export function pump(
  source: Readable,
  target: Writable,
  limit = Infinity,
  grow: (size: number) => void = () => undefined,
): Promise<number> {
  return new Promise((resolve, reject) => {
    let size = 0;
    const fail = (error: Error) => {
      source.off('data', take);
      source.pause();
      target.destroy();
      reject(error);
    };
    const take = (piece: Buffer) => {
      size += piece.length;
      if (size > limit) return fail(tooLarge());
      try {
        grow(size);
      } catch (error) {
        return fail(error as Error);
      }
      if (!target.write(piece, () => giveBack(piece))) source.pause();
    };
    if (isBroken(source) || target.destroyed) return fail(brokenOff());
    target.on('drain', () => source.resume());
    target.on('error', fail);
    target.once('finish', () => resolve(size));
    target.once('close', () => {
      if (!target.writableFinished) fail(new Error('what content goes to was closed before it was complete'));
    });
    source.on('data', take);
    source.once('end', () => target.end());
    source.once('error', fail);
    source.once('close', () => {
      if (!source.readableEnded) fail(brokenOff());
    });
  });
}

/** Forwards bytes up to the limit. `grow` is called with the bytes so far, and may throw. */
export function counted(length: number, grow: (size: number) => void = () => undefined): Transform {
  let size = 0;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      size += chunk.length;
      try {
        grow(size);
        done(size > length ? tooLarge() : null, chunk);
      } catch (error) {
        done(error as Error);
      }
    },
  }).on('error', () => undefined);
}

/** Releases only buffers with their own memory: small ones share a pool. */
function giveBack({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** True for a source that was destroyed before any listener: it emits no more events. */
export const isBroken = (source: Readable) => source.destroyed && !source.readableEnded;
export const brokenOff = () => new Error('the client went away before its upload was complete');
