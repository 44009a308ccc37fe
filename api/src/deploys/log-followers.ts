/**
 * Follows logs as server-sent events. In: a log, a position in bytes, and a signal. Out: texts of events. A slow reader
 * suspends only its own follower, which keeps one piece of the log and reads the next on demand.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnModuleDestroy, StreamableFile } from '@nestjs/common';
import { invalid, retryLater } from '../http/problem.js';
import { type ReadableLog, textsOf } from './log-texts.js';

/** Maximum number of simultaneous followers in one process of the API. */
export const FOLLOWERS = { ofProject: 4, ofAccount: 8, ofAll: 64 } as const;
const POLL_MS = 500;
const HEARTBEAT_MS = 15_000;
/**
 * Maximum duration of a connection. After it, the client connects again and the API checks the client's rights again.
 */
const LIFETIME_MS = 15 * 60_000;

export interface Followed {
  ref: string;
  accountId: number;
  log: ReadableLog;
  /** Called before each look at the log. Returns the data of the last event if the log is complete. */
  ended(): Promise<object | undefined>;
  /** Number of bytes of the log that the reader has received. */
  from: number;
}

export interface Following {
  events: AsyncGenerator<string>;
  signal: AbortSignal;
}

@Injectable()
export class LogFollowers implements OnModuleDestroy {
  private readonly active = new Set<Followed>();
  private readonly stop = new AbortController();

  /** Open responses would delay the end of the process. */
  onModuleDestroy(): void {
    this.stop.abort();
  }

  /** Occupies a place until `signal` is aborted. */
  follow(followed: Followed, closed: AbortSignal): Following {
    this.refuseTooMany(followed);
    this.active.add(followed);
    closed.addEventListener('abort', () => this.active.delete(followed), { once: true });
    if (closed.aborted) this.active.delete(followed);
    const signal = AbortSignal.any([closed, this.stop.signal, AbortSignal.timeout(LIFETIME_MS)]);
    return { events: this.eventsOf(followed, signal), signal };
  }

  private refuseTooMany({ ref, accountId }: Followed): void {
    const all = [...this.active];
    const ofProject = all.filter((other) => other.ref === ref).length;
    const ofAccount = all.filter((other) => other.accountId === accountId).length;
    const refusal =
      (ofProject >= FOLLOWERS.ofProject && `${FOLLOWERS.ofProject} readers follow logs of this project already.`) ||
      (ofAccount >= FOLLOWERS.ofAccount && `${FOLLOWERS.ofAccount} readers of this account follow logs already.`) ||
      (all.length >= FOLLOWERS.ofAll && 'Too many readers follow logs now.');
    if (refusal) throw retryLater('too_many_requests', `${refusal} Close one, or read the log as text/plain.`, 10);
  }

  private async *eventsOf(followed: Followed, signal: AbortSignal): AsyncGenerator<string> {
    try {
      yield ': the log follows\n\n';
      yield* this.untilEnd(followed, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.active.delete(followed);
    }
  }

  private async *untilEnd({ log, ended, from }: Followed, signal: AbortSignal): AsyncGenerator<string> {
    let position = from;
    for (let idleMs = 0; ; idleMs += POLL_MS) {
      const end = await ended();
      const { start, end: written } = await log.kept();
      if (position > written) {
        position = start;
        yield eventOf('restart', position, {});
      } else if (position < start) {
        yield eventOf('skipped', start, { bytes: start - position });
        position = start;
      }
      for await (const piece of textsOf(log, position, end !== undefined)) {
        signal.throwIfAborted();
        position = piece.end;
        idleMs = 0;
        yield eventOf('log', position, { text: piece.text });
      }
      if (end !== undefined) return yield eventOf('end', position, end);
      if (idleMs >= HEARTBEAT_MS) {
        idleMs = 0;
        yield ': waiting\n\n';
      }
      await pause(POLL_MS, undefined, { signal });
    }
  }
}

/** JSON has line breaks only as escapes in strings, so no output can end the event or begin another. */
const eventOf = (event: string, id: number, data: object) =>
  `event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;

/** Returns the position of the reader's last event, whose id it repeats. Undefined: it has received none. */
export function positionOf({ 'last-event-id': lastEventId = '' }: IncomingHttpHeaders): number | undefined {
  if (lastEventId === '') return undefined;
  if (typeof lastEventId === 'string' && /^\d{1,15}$/.test(lastEventId)) return Number(lastEventId);
  throw invalid('Last-Event-ID', 'must be the id of an event of this log: a number of bytes');
}

export const isEventStream = ({ accept = '' }: IncomingHttpHeaders): boolean => accept.includes('text/event-stream');

export const eventStream = ({ events, signal }: Following): StreamableFile =>
  new StreamableFile(Readable.from(events, { signal }), { type: 'text/event-stream; charset=utf-8' });
