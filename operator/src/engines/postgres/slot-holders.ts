/**
 * Decides which transactions delay a replication slot of another project for too long. In: the sessions and slots of
 * each look, the writes of transactions according to the log, and the time. Out: the sessions to end, each with a
 * reason. Pure. Used by SessionWatch.
 *
 * A slot that is being created waits for all transactions that have an id. A slot with a reader keeps the log since the
 * oldest of these transactions began. The statements that a session sends are no evidence of progress: a session may
 * send `SELECT 1` for ever.
 */
import { type Harm, keyOf, type TenantSession } from './harm.js';

export interface Slot {
  database: string;
  /** Position in the log, in bytes, from which the slot keeps the log. */
  restart: number;
  /** Position up to which the reader has confirmed the log. While the slot is being created, the end of the log. */
  confirmed: number;
  isBeingMade: boolean;
}

export interface SlotLoad {
  slots: readonly Slot[];
  /** The end of the log. */
  position: number;
  /** Bytes of log that a slot may keep. Beyond them Postgres invalidates the slot. */
  limit: number;
}

/** A write: the id of the transaction or subtransaction, and the database that it wrote to. */
export interface Write {
  transactionId: string;
  database: string | null;
}

/** Maximum milliseconds for which a transaction may delay a slot: without writing, and in all. */
const IDLE_MS = 60_000;
const LONGEST_MS = 30 * 60_000;
/**
 * Shares of the log that a slot may keep. Below HELD_BACK the slot does not count as delayed, because it advances only
 * now and then. At MOST the transaction is ended.
 */
const HELD_BACK = 1 / 16;
const MOST = 1 / 2;

interface Transaction {
  session: TenantSession;
  /** The end of the log when a look found the transaction first. */
  begin: number;
  /**
   * The time since when the transaction has delayed a slot. Undefined while it delays none. `idleSince`: the time of
   * its last write since then.
   */
  heldSince: number | undefined;
  idleSince: number;
}

export class SlotHolders {
  #transactions = new Map<string, Transaction>();

  /** True while any transaction delays a slot. Then the log has to be read for `wrote`. */
  get areAny(): boolean {
    return this.#holders().length > 0;
  }

  /** Returns the sessions to end. */
  look(sessions: readonly TenantSession[], { slots, position, limit }: SlotLoad, now: number): Harm[] {
    const before = this.#transactions;
    this.#transactions = new Map();
    return sessions.flatMap((session): Harm[] => {
      if (session.transactionId === null) return [];
      const key = `${keyOf(session)} ${session.transactionId}`;
      const { begin = position, heldSince, idleSince = now } = before.get(key) ?? {};
      const others = slots.filter(({ database }) => database !== session.database);
      const kept = Math.max(0, ...others.map(({ restart, confirmed }) => confirmed - Math.max(restart, begin)));
      const isHolder = kept > limit * HELD_BACK || others.some(({ isBeingMade }) => isBeingMade);
      const since = isHolder ? (heldSince ?? now) : undefined;
      const transaction = { session, begin, heldSince: since, idleSince: heldSince === undefined ? now : idleSince };
      this.#transactions.set(key, transaction);
      if (since === undefined) return [];
      if (kept > limit * MOST) return [{ session, reason: 'WalRetained' }];
      if (now - since >= LONGEST_MS) return [{ session, reason: 'LongTransaction' }];
      return now - transaction.idleSince >= IDLE_MS ? [{ session, reason: 'IdleTransaction' }] : [];
    });
  }

  /**
   * Records the writes of transactions in progress. Undefined: the writes are unknown, so each transaction may have
   * written. The session of a subtransaction is not known. So its writes count for all transactions of its database.
   */
  wrote(writes: readonly Write[] | undefined, now: number): void {
    const all = [...this.#transactions.values()];
    const ids = new Set(all.map(({ session }) => session.transactionId));
    for (const holder of this.#holders()) {
      const { transactionId, database } = holder.session;
      const isWriter = (write: Write) =>
        write.transactionId === transactionId || (!ids.has(write.transactionId) && write.database === database);
      if (!writes || writes.some(isWriter)) holder.idleSince = now;
    }
  }

  /** Restarts the idle time of a session that waits for another project's session and can't proceed. */
  excuse(session: TenantSession, now: number): void {
    const transaction = this.#transactions.get(`${keyOf(session)} ${session.transactionId}`);
    if (transaction) transaction.idleSince = now;
  }

  #holders(): Transaction[] {
    return [...this.#transactions.values()].filter(({ heldSince }) => heldSince !== undefined);
  }
}
