/**
 * Queue of messages. Some messages are sent after the response, so that the time of the response does not reveal
 * whether there was a recipient. The numbers of messages in progress and waiting are limited. Failures are logged.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { ConcurrencyLimit } from '@slipway/program';
import type { Logger } from 'pino';
import type { OwnerLog } from '../../../logs/owner-log.js';
import { whyNotSent } from './failure.js';

/** Limits of messages in progress and waiting, for all projects and for one. */
const LIMITS = { most: 16, ofOne: 4, waiting: 1_000, waitingOfOne: 500, firstMayWait: true };
/** Maximum milliseconds that a shutdown waits for mails in progress. */
const CLOSE_MS = 10_000;

interface Message {
  ref: string;
  kind: string;
  send(): Promise<void>;
}

export class Outbox {
  readonly #limit = new ConcurrencyLimit(LIMITS);
  readonly #closed = new AbortController();

  constructor(
    private readonly log: Logger,
    private readonly ownerLog?: OwnerLog,
  ) {}

  /** Queues a message for which no request waits. */
  post(message: Message): void {
    const { ref, kind } = message;
    const { signal } = this.#closed;
    this.#limit
      .run(ref, () => this.#send(message), signal)
      .catch(() => {
        if (signal.aborted) return;
        this.log.warn({ ref, kind }, 'message dropped: too many are waiting');
        this.#writeForOwner(ref, kind, 'too many messages are waiting');
      });
  }

  /** Resolves when all queued messages were sent or have failed, or after `CLOSE_MS`. */
  async close(): Promise<void> {
    await Promise.race([this.#limit.idle(), pause(CLOSE_MS, undefined, { ref: false })]);
    const left = this.#limit.running + this.#limit.waiting;
    this.#closed.abort();
    if (left > 0) this.log.warn({ left }, 'messages left unsent');
  }

  async #send({ ref, kind, send }: Message): Promise<void> {
    try {
      await send();
    } catch (error) {
      this.#writeForOwner(ref, kind, whyNotSent(error));
      // Only the reason is logged, because the mail server's message may quote the address.
      this.log.warn(
        { ref, kind, reason: (error as { code?: unknown }).code ?? (error as Error).name },
        'message not sent',
      );
    }
  }

  #writeForOwner(ref: string, kind: string, reason: string): void {
    this.ownerLog?.write(ref, 'auth', { level: 'error', message: 'message not sent', facts: { kind, reason } });
  }
}
