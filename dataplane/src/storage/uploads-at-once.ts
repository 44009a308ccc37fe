/** Bounds how many uploads of one project are received at a time: each holds a connection, a file and memory for as long as its client likes. */
import { tooManyUploads } from './errors.js';

export class UploadsAtOnce {
  readonly #underWay = new Map<string, number>();

  constructor(private readonly most: number) {}

  async receive<T>(ref: string, upload: () => Promise<T>): Promise<T> {
    const others = this.#underWay.get(ref) ?? 0;
    if (others >= this.most) throw tooManyUploads(this.most);
    this.#underWay.set(ref, others + 1);
    try {
      return await upload();
    } finally {
      const left = (this.#underWay.get(ref) as number) - 1;
      if (left > 0) this.#underWay.set(ref, left);
      else this.#underWay.delete(ref);
    }
  }
}
