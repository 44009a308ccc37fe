/**
 * Reserves bytes of memory in several budgets at once, such as the budget of a project and that of the process. In:
 * byte counts. Out: whether all budgets have room.
 */
export interface Budget {
  /** Reserved bytes by holder, without entries of 0. */
  reserved: Map<string, number>;
  holder: string;
  most: number;
}

/** Bytes that one holder reserves. Its creator calls `end`. */
export class ReservedBytes {
  #bytes = 0;

  constructor(private readonly budgets: readonly Budget[]) {}

  get bytes(): number {
    return this.#bytes;
  }

  /** Reserves bytes. Returns false without a reservation if a budget has no room. */
  grow(bytes: number): boolean {
    if (this.withoutRoom(bytes)) return false;
    this.keep(bytes);
    return true;
  }

  /** Returns the first budget without room for `bytes` more. */
  withoutRoom(bytes: number): Budget | undefined {
    return this.budgets.find(({ reserved, holder, most }) => (reserved.get(holder) ?? 0) + bytes > most);
  }

  /** Counts bytes that are in memory already. They are never rejected, but leave less room for others. */
  keep(bytes: number): void {
    this.#bytes += bytes;
    for (const { reserved, holder } of this.budgets) {
      const sum = (reserved.get(holder) ?? 0) + bytes;
      if (sum > 0) reserved.set(holder, sum);
      else reserved.delete(holder);
    }
  }

  /** Releases all bytes. May be called repeatedly. */
  end(): void {
    this.keep(-this.#bytes);
  }
}
