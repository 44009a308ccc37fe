/**
 * Connections that follow logs as server-sent events: their number and duration. In: who follows what, and the texts of
 * events. Out: a response. A slow reader suspends only its own events, which are made on demand.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { Injectable, type OnModuleDestroy, StreamableFile } from '@nestjs/common';
import { retryLater } from '../http/problem.js';

/** Maximum number of simultaneous followers in one process of the API. */
export const FOLLOWERS = { ofProject: 4, ofAccount: 8, ofAll: 64 } as const;
export const HEARTBEAT_MS = 15_000;
/**
 * Maximum duration of a connection. After it, the client connects again and the API checks the client's rights again.
 */
const LIFETIME_MS = 15 * 60_000;

export interface Follower {
  ref: string;
  accountId: number;
}

export interface Following {
  events: AsyncGenerator<string>;
  signal: AbortSignal;
}

@Injectable()
export class Followers implements OnModuleDestroy {
  private readonly active = new Set<Follower>();
  private readonly stop = new AbortController();

  /** Open responses would delay the end of the process. */
  onModuleDestroy(): void {
    this.stop.abort();
  }

  /** Occupies a place until `closed` is aborted, or the events end. */
  follow(
    { ref, accountId }: Follower,
    closed: AbortSignal,
    eventsUntil: (signal: AbortSignal) => AsyncGenerator<string>,
  ): Following {
    const follower = { ref, accountId };
    this.refuseTooMany(follower);
    this.active.add(follower);
    closed.addEventListener('abort', () => this.active.delete(follower), { once: true });
    if (closed.aborted) this.active.delete(follower);
    const signal = AbortSignal.any([closed, this.stop.signal, AbortSignal.timeout(LIFETIME_MS)]);
    return { events: this.eventsOf(follower, eventsUntil(signal), signal), signal };
  }

  private refuseTooMany({ ref, accountId }: Follower): void {
    const all = [...this.active];
    const ofProject = all.filter((other) => other.ref === ref).length;
    const ofAccount = all.filter((other) => other.accountId === accountId).length;
    const refusal =
      (ofProject >= FOLLOWERS.ofProject && `${FOLLOWERS.ofProject} readers follow logs of this project already.`) ||
      (ofAccount >= FOLLOWERS.ofAccount && `${FOLLOWERS.ofAccount} readers of this account follow logs already.`) ||
      (all.length >= FOLLOWERS.ofAll && 'Too many readers follow logs now.');
    if (refusal)
      throw retryLater('too_many_requests', `${refusal} Close one, or read the log without following it.`, 10);
  }

  private async *eventsOf(
    follower: Follower,
    events: AsyncGenerator<string>,
    signal: AbortSignal,
  ): AsyncGenerator<string> {
    try {
      yield ': the log follows\n\n';
      yield* events;
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.active.delete(follower);
    }
  }
}

/** A comment, by which a connection without events stays open. */
export const HEARTBEAT = ': waiting\n\n';

/** JSON has line breaks only as escapes in strings, so no output can end the event or begin another. */
export const eventOf = (event: string, id: number | string, data: object) =>
  `event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;

export const isEventStream = ({ accept = '' }: IncomingHttpHeaders): boolean => accept.includes('text/event-stream');

export const eventStream = ({ events, signal }: Following): StreamableFile =>
  new StreamableFile(Readable.from(events, { signal }), { type: 'text/event-stream; charset=utf-8' });
