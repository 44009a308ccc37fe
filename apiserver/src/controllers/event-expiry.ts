/** Events are kept for an hour, and no more of them than a bound. */

import type { Logger } from 'pino';
import type { KubeObject } from '../objects.js';
import type { Registry } from '../resources/registry.js';
import type { Resource } from '../resources/resource.js';
import type { Writes } from '../resources/writes.js';
import type { Store } from '../storage/store.js';
import type { StoredObject } from '../storage/stored-object.js';
import { remove } from './remove.js';

const KEPT_MS = 60 * 60_000;
const MAX_EVENTS = 5000;
const INTERVAL_MS = 30_000;

export class EventExpiry {
  readonly #store: Store;
  readonly #writes: Writes;
  readonly #resource: Resource;
  readonly #log: Logger;
  #timer: NodeJS.Timeout | undefined;

  constructor(store: Store, registry: Registry, writes: Writes, log: Logger) {
    this.#store = store;
    this.#writes = writes;
    this.#log = log;
    this.#resource = registry.find('', 'v1', 'events') as Resource;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.sweep(Date.now()).catch((error) => this.#log.warn({ reason: error.message }, 'events not expired'));
    }, INTERVAL_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async sweep(now: number): Promise<void> {
    const events = this.#store.collection('events').list();
    const old = expired(events, now);
    await Promise.all(old.map((stored) => remove(this.#writes, this.#resource, stored)));
  }
}

function expired(events: readonly StoredObject[], now: number, most = MAX_EVENTS): StoredObject[] {
  const dated = events.map((stored) => ({ stored, seen: lastSeen(stored.object) })).sort((a, b) => b.seen - a.seen);
  return dated.filter(({ seen }, index) => index >= most || now - seen > KEPT_MS).map(({ stored }) => stored);
}

function lastSeen({ metadata, lastTimestamp, eventTime, series }: KubeObject): number {
  const observed = (series as { lastObservedTime?: string } | undefined)?.lastObservedTime;
  const times = [metadata.creationTimestamp, lastTimestamp, eventTime, observed].map((time) =>
    Date.parse(String(time)),
  );
  return Math.max(...times.filter((time) => !Number.isNaN(time)));
}
