/**
 * Bounds how many uploads of one project are received at a time: each holds a connection, a file and memory for as long
 * as its client likes.
 */
import type { ServiceRequest } from '../service.js';
import { tooManyUploads } from './errors.js';

export class UploadsAtOnce {
  readonly #underWay = new Map<string, number>();

  constructor(private readonly most: number) {}

  async receive<T>({ tenant: { ref }, incoming, outgoing }: ServiceRequest, upload: () => Promise<T>): Promise<T> {
    const others = this.#underWay.get(ref) ?? 0;
    if (others >= this.most) throw tooManyUploads(this.most);
    this.#underWay.set(ref, others + 1);
    // Once a request is answered, as one that stood still is, Node no more tells who reads it that the rest will never
    // come.
    outgoing.once('close', () => {
      if (!incoming.complete) incoming.destroy();
    });
    try {
      return await upload();
    } finally {
      const left = (this.#underWay.get(ref) as number) - 1;
      if (left > 0) this.#underWay.set(ref, left);
      else this.#underWay.delete(ref);
    }
  }
}
