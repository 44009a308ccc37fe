/**
 * Keeps a part of the disk free for the platform itself. In: the folder of storage's files. Out: whether tenants may
 * write there. Called by StorageUsage.
 */
import { statfs } from 'node:fs/promises';
import { diskReserveOf } from '@slipway/installation';

/** Milliseconds for which a measurement of the disk is used. */
const LOOK_MS = 500;

export class DiskReserve {
  #looked = -Infinity;
  #room = Promise.resolve(Infinity);

  constructor(
    private readonly folder: string,
    private readonly look: typeof statfs = statfs,
  ) {}

  /**
   * True if `bytes` more leave the reserve free. An unreadable disk counts as having room: if it has none, the write
   * fails.
   */
  async hasRoom(bytes: number): Promise<boolean> {
    if (performance.now() - this.#looked > LOOK_MS) {
      this.#looked = performance.now();
      this.#room = this.look(this.folder)
        .then(({ bavail, bsize, blocks }) => bavail * bsize - diskReserveOf(blocks * bsize))
        .catch(() => Infinity);
    }
    return bytes <= (await this.#room);
  }
}
