/**
 * Limits the concurrent uploads of a project, because each upload uses a connection, a file and memory for as long as
 * its client is sending.
 */
import { ConcurrencyLimit } from '@slipway/program';
import type { ServiceRequest } from '../service.js';
import { tooManyUploads } from './errors.js';

export class UploadsAtOnce {
  readonly #limit: ConcurrencyLimit;

  constructor(ofOne: number) {
    this.#limit = new ConcurrencyLimit({ most: Infinity, ofOne }, () => tooManyUploads(ofOne));
  }

  receive<T>({ tenant: { ref }, incoming, outgoing }: ServiceRequest, upload: () => Promise<T>): Promise<T> {
    return this.#limit.run(ref, () => {
      // After a response, for example to a stalled request, Node no longer reports to the reader that the rest will
      // never arrive.
      outgoing.once('close', () => {
        if (!incoming.complete) incoming.destroy();
      });
      return upload();
    });
  }
}
