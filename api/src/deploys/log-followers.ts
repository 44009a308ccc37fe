/**
 * Follows the output of builds as server-sent events. In: a build, a byte offset, and a signal. Out: texts of events. A
 * slow reader suspends only its own follower, which keeps one piece of output and reads the next on demand.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { type Build, isBuildFinished } from '@slipway/crds';
import { invalid, retryLater } from '../http/problem.js';
import { BuildOutputs } from './build-outputs.js';
import { BuildResources } from './build-resources.js';

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
  build: string;
  accountId: number;
  /** Number of bytes of the output that the reader has received. */
  from: number;
}

@Injectable()
export class LogFollowers implements OnModuleDestroy {
  private readonly active = new Set<Followed>();
  private readonly stop = new AbortController();

  constructor(
    private readonly resources: BuildResources,
    private readonly outputs: BuildOutputs,
  ) {}

  /** Open responses would delay the end of the process. */
  onModuleDestroy(): void {
    this.stop.abort();
  }

  /** Occupies a place until `signal` is aborted. */
  follow(followed: Followed, closed: AbortSignal): { events: AsyncGenerator<string>; signal: AbortSignal } {
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
      (all.length >= FOLLOWERS.ofAll && 'Too many readers follow logs of builds now.');
    if (refusal) throw retryLater('too_many_requests', `${refusal} Close one, or read the log as text/plain.`, 10);
  }

  private async *eventsOf(followed: Followed, signal: AbortSignal): AsyncGenerator<string> {
    try {
      yield ': the output of the build follows\n\n';
      yield* this.untilEnd(followed, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.active.delete(followed);
    }
  }

  private async *untilEnd({ ref, build, from }: Followed, signal: AbortSignal): AsyncGenerator<string> {
    let position = from;
    for (let idleMs = 0; ; idleMs += POLL_MS) {
      // Read before the output: the output of an ended build is complete.
      const seen = await this.resources.get(ref, build);
      const isOver = seen === undefined || isBuildFinished(seen);
      if (position > (await this.outputs.bytes(ref, build))) {
        position = 0;
        yield eventOf('restart', position, {});
      }
      for await (const { text, end } of this.outputs.texts(ref, build, position, isOver)) {
        signal.throwIfAborted();
        position = end;
        idleMs = 0;
        yield eventOf('log', position, { text });
      }
      if (isOver) return yield eventOf('end', position, { phase: phaseOf(seen) });
      if (idleMs >= HEARTBEAT_MS) {
        idleMs = 0;
        yield ': waiting\n\n';
      }
      await pause(POLL_MS, undefined, { signal });
    }
  }
}

/** Null: the build was deleted. */
const phaseOf = (build: Build | undefined) => build?.status?.phase ?? null;

/** JSON has line breaks only as escapes in strings, so no output can end the event or begin another. */
const eventOf = (event: string, id: number, data: object) =>
  `event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;

/** Returns the byte offset of the reader's last event, whose id it repeats. */
export function offsetOf(lastEventId: string | undefined): number {
  if (lastEventId === undefined || lastEventId === '') return 0;
  if (/^\d{1,12}$/.test(lastEventId)) return Number(lastEventId);
  throw invalid('Last-Event-ID', 'must be the id of an event of this log: a number of bytes');
}
