/**
 * Messages on their way. Some are sent while nobody waits, so that how long an answer takes doesn't tell whether there
 * was somebody to write to. How many are under way, and how many wait, is bounded; one that fails is named in the log.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { FairQueue } from '../fair-queue.js';

const LIMITS = { atOnce: 16, atOnceOfOne: 4, waiting: 1_000, waitingOfOne: 500 };
/** Time that a shutdown waits for mails in progress. */
const CLOSE_MS = 10_000;

interface Message {
  ref: string;
  kind: string;
  send(): Promise<void>;
}

export class Outbox {
  readonly #queue = new FairQueue(LIMITS);
  readonly #sending = new Set<Promise<void>>();

  constructor(private readonly log: Logger) {}

  /** Takes a message that nobody waits for. */
  post(message: Message): void {
    const { ref, kind } = message;
    const sent = this.#queue
      .run(ref, () => this.#send(message))
      .catch(() => this.log.warn({ ref, kind }, 'message dropped: too many are waiting'))
      .finally(() => this.#sending.delete(sent));
    this.#sending.add(sent);
  }

  /** Resolves when all that was taken has been sent or has failed, or after `CLOSE_MS`. */
  async close(): Promise<void> {
    await Promise.race([Promise.all(this.#sending), pause(CLOSE_MS, undefined, { ref: false })]);
    const left = this.#sending.size;
    this.#queue.drop();
    if (left > 0) this.log.warn({ left }, 'messages left unsent');
  }

  async #send({ ref, kind, send }: Message): Promise<void> {
    try {
      await send();
    } catch (error) {
      // What the mail server says may quote the address; the reason is enough.
      this.log.warn(
        { ref, kind, reason: (error as { code?: unknown }).code ?? (error as Error).name },
        'a message could not be sent',
      );
    }
  }
}
