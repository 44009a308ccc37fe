/** Deletes Events that are older than an hour or above a limit. */

import type { KubeObject } from '../objects.js';
import type { Resource } from '../resources/resource.js';
import type { StoredObject } from '../storage/stored-object.js';
import type { Parts } from './parts.js';
import { remove } from './remove.js';

const KEPT_MS = 60 * 60_000;
const MAX_EVENTS = 5000;
const INTERVAL_MS = 30_000;

export class EventExpiry {
  readonly #parts: Parts;
  readonly #resource: Resource;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#resource = parts.registry.find('', 'v1', 'events') as Resource;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.sweep(Date.now()).catch((error) => this.#parts.log.warn({ reason: error.message }, 'events not expired'));
    }, INTERVAL_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async sweep(now: number): Promise<void> {
    const events = this.#parts.store.collection('events').list();
    const old = expired(events, now);
    await Promise.all(old.map((stored) => remove(this.#parts.writes, this.#resource, stored)));
  }
}

function expired(events: readonly StoredObject[], now: number, most = MAX_EVENTS): StoredObject[] {
  const dated = events.map((stored) => ({ stored, seen: lastSeen(stored.outline) })).sort((a, b) => b.seen - a.seen);
  return dated.filter(({ seen }, index) => index >= most || now - seen > KEPT_MS).map(({ stored }) => stored);
}

function lastSeen({ metadata, lastTimestamp, eventTime, series }: KubeObject): number {
  const observed = (series as { lastObservedTime?: string } | undefined)?.lastObservedTime;
  const times = [metadata.creationTimestamp, lastTimestamp, eventTime, observed].map((time) =>
    Date.parse(String(time)),
  );
  return Math.max(...times.filter((time) => !Number.isNaN(time)));
}
