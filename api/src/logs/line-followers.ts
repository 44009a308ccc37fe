/**
 * Follows lines as server-sent events. In: a way to read the newest lines from a time on. Out: an event for each line,
 * once. The id of an event is the time of its line, and its number among the lines of that millisecond.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { invalid } from '../http/problem.js';
import { eventOf, HEARTBEAT, HEARTBEAT_MS } from '../live/followers.js';
import type { ProjectLogLine } from './logs.schema.js';

/** The last line that a reader has. `count`: the number of lines of that millisecond that it has. */
export interface LinePosition {
  ms: number;
  count: number;
}

export interface FollowedLines {
  /** Returns the newest lines of this time and later, oldest first. Undefined: the reader may not read on. */
  read(since: number | undefined): Promise<readonly ProjectLogLine[] | undefined>;
  from: LinePosition | undefined;
  pollMs: number;
}

export async function* followLines({ read, from, pollMs }: FollowedLines, signal: AbortSignal): AsyncGenerator<string> {
  let at: LinePosition = from ?? { ms: 0, count: 0 };
  for (let idleMs = 0; ; idleMs += pollMs) {
    const lines = await read(at.ms === 0 ? undefined : at.ms);
    if (!lines) return yield eventOf('end', idOf(at), {});
    for (const [line, position] of newLines(lines, at)) {
      signal.throwIfAborted();
      at = position;
      idleMs = 0;
      yield eventOf('line', idOf(at), line);
    }
    if (idleMs >= HEARTBEAT_MS) {
      idleMs = 0;
      yield HEARTBEAT;
    }
    await pause(pollMs, undefined, { signal });
  }
}

/** Returns the lines behind the position, each with its own. */
function newLines(lines: readonly ProjectLogLine[], after: LinePosition): [ProjectLogLine, LinePosition][] {
  const found: [ProjectLogLine, LinePosition][] = [];
  let at = { ms: 0, count: 0 };
  for (const line of lines) {
    const ms = Date.parse(line.time);
    at = ms === at.ms ? { ms, count: at.count + 1 } : { ms, count: 1 };
    if (ms > after.ms || (ms === after.ms && at.count > after.count)) found.push([line, at]);
  }
  return found;
}

const idOf = ({ ms, count }: LinePosition) => `${ms}-${count}`;

/** Returns the position of the reader's last event, whose id it repeats. Undefined: it has received none. */
export function linePositionOf({ 'last-event-id': lastEventId = '' }: IncomingHttpHeaders): LinePosition | undefined {
  if (lastEventId === '') return undefined;
  const [, ms, count] = (typeof lastEventId === 'string' && /^(\d{1,14})-(\d{1,6})$/.exec(lastEventId)) || [];
  if (ms !== undefined) return { ms: Number(ms), count: Number(count) };
  throw invalid('Last-Event-ID', 'must be the id of an event of this log, such as 1767607200000-1');
}
