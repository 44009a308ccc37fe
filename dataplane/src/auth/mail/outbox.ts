/**
 * Messages on their way. Some are sent while nobody waits, so that how long an answer takes doesn't tell whether there
 * was somebody to write to. How many are under way, and how many wait, is bounded; one that fails is named in the log.
 */
import type { Logger } from 'pino';

const UNDER_WAY = 8;
const WAITING = 1000;

interface Message {
  ref: string;
  kind: string;
  send(): Promise<void>;
}

export class Outbox {
  readonly #waiting: Message[] = [];
  readonly #running = new Set<Promise<void>>();

  constructor(private readonly log: Logger) {}

  /** Takes a message that nobody waits for. */
  post(message: Message): void {
    if (this.#waiting.length >= WAITING) {
      this.log.warn({ ref: message.ref, kind: message.kind }, 'a message was dropped: too many are waiting');
      return;
    }
    this.#waiting.push(message);
    this.#next();
  }

  /** Resolves when all that was taken has been sent or has failed. */
  async close(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #next(): void {
    while (this.#running.size < UNDER_WAY) {
      const message = this.#waiting.shift();
      if (message === undefined) return;
      const run = this.#send(message).finally(() => {
        this.#running.delete(run);
        this.#next();
      });
      this.#running.add(run);
    }
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
