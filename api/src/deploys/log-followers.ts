/**
 * Follows outputs as server-sent events. In: an output, a position in bytes, and a signal. Out: texts of events. A slow
 * reader suspends only its own follower, which keeps one piece of the output and reads the next on demand.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { invalid } from '../http/problem.js';
import { eventOf, type Follower, Followers, type Following, HEARTBEAT, HEARTBEAT_MS } from '../live/followers.js';
import { type ReadableLog, textsOf } from './log-texts.js';

const POLL_MS = 500;

export interface Followed extends Follower {
  log: ReadableLog;
  /** Called before each look at the log. Returns the data of the last event if the log is complete. */
  ended(): Promise<object | undefined>;
  /** Number of bytes of the log that the reader has received. */
  from: number;
}

@Injectable()
export class LogFollowers {
  constructor(private readonly followers: Followers) {}

  /** Occupies a place until `closed` is aborted. */
  follow(followed: Followed, closed: AbortSignal): Following {
    return this.followers.follow(followed, closed, (signal) => untilEnd(followed, signal));
  }
}

async function* untilEnd({ log, ended, from }: Followed, signal: AbortSignal): AsyncGenerator<string> {
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
      yield HEARTBEAT;
    }
    await pause(POLL_MS, undefined, { signal });
  }
}

/** Returns the position of the reader's last event, whose id it repeats. Undefined: it has received none. */
export function positionOf({ 'last-event-id': lastEventId = '' }: IncomingHttpHeaders): number | undefined {
  if (lastEventId === '') return undefined;
  if (typeof lastEventId === 'string' && /^\d{1,15}$/.test(lastEventId)) return Number(lastEventId);
  throw invalid('Last-Event-ID', 'must be the id of an event of this log: a number of bytes');
}
