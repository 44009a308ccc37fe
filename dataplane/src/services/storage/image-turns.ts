/** Limits concurrent and waiting transformations of images, because each has its source and result in memory. */
import { ConcurrencyLimit } from '@slipway/program';
import type { ServiceRequest } from '../service.js';
import { StorageError } from './errors.js';

/**
 * Limits of transformations by project. One project may have only some of the waiting ones, so that it can't fill the
 * queue for all others.
 */
const BOUNDS = { most: 2, waiting: 64, waitingOfOne: 48 };

export class ImageTurns {
  readonly #limit = new ConcurrencyLimit(
    BOUNDS,
    () => new StorageError(503, 'SlowDown', 'Too many images are being transformed; try again in a moment'),
  );

  /** Skips a transformation whose client has disconnected, and frees its place. */
  inTurn<T>({ tenant: { ref }, outgoing }: ServiceRequest, make: () => Promise<T>): Promise<T> {
    const left = new AbortController();
    const leave = () => left.abort(new Error('the client went away before its image was made'));
    if (outgoing.destroyed) leave();
    else outgoing.once('close', leave);
    return this.#limit.run(ref, make, left.signal).finally(() => outgoing.off('close', leave));
  }
}
