/**
 * Moves bytes from where they come to where they go. Each piece's memory is given back as soon as it is written: were
 * it left to the collector, every 64 MB of content would have it look through the whole heap.
 */
import { type Readable, Transform, type Writable } from 'node:stream';
import { tooLarge } from '../errors.js';

/** Moves all of `source`, ends `target`, and says how much it was. A source or target that breaks off is an error. */
export function pump(source: Readable, target: Writable, limit = Infinity): Promise<number> {
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
      if (size > limit) fail(tooLarge());
      else if (!target.write(piece, () => giveBack(piece))) source.pause();
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

/** Passes bytes on, and no more than are allowed. */
export function counted(length: number): Transform {
  let size = 0;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      size += chunk.length;
      done(size > length ? tooLarge() : null, chunk);
    },
  }).on('error', () => undefined);
}

/** Only what has its memory to itself: small buffers are parts of one that others use. */
function giveBack({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** True for a source that was destroyed before anybody listened: it emits no more events. */
export const isBroken = (source: Readable) => source.destroyed && !source.readableEnded;
export const brokenOff = () => new Error('the client went away before its upload was complete');
