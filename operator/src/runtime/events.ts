/**
 * Events (core/v1) on objects, for `kubectl describe`. A repeated message raises the count of its Event. The number of
 * Events per object is limited. They are written in the background, and writing may fail: Events are information, not a
 * record.
 */
import { isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import { ConcurrencyLimit, type Rate, TokenBuckets } from '@slipway/program';
import type { Logger } from 'pino';
import { timestamp } from './conditions.js';

export interface EventOptions {
  client: KubeClient;
  component: string;
  log: Logger;
}

/** Rate limit of Events for one object: 25 at once, then one every five minutes, as in client-go. */
const EVENTS: Rate = { burst: 25, perSecond: 1 / 300 };
/** Maximum number of series and objects in memory. The oldest are dropped first. */
const MEMORY = 4096;
/** Limits of writes. Only one runs at a time, which keeps the Events in order. */
const WRITES = { most: 1, waiting: 999 };
const MESSAGE_LIMIT = 1024;

interface Series {
  name: string;
  path: string;
  count: number;
}

export class EventRecorder {
  readonly #options: EventOptions;
  readonly #series = new Map<string, Series>();
  readonly #buckets = new TokenBuckets(EVENTS, MEMORY);
  readonly #writes = new ConcurrencyLimit(WRITES);

  constructor(options: EventOptions) {
    this.#options = options;
  }

  record(object: KubeObject, type: 'Normal' | 'Warning', reason: string, message: string): void {
    if (this.#writes.isFull('')) return;
    if (!this.#buckets.of(object.metadata.uid ?? object.metadata.name).tryTake()) return;
    this.#writes
      .run('', () => this.#write(object, type, reason, message.slice(0, MESSAGE_LIMIT)))
      .catch((error: Error) => this.#options.log.warn({ why: error.message, reason }, 'Event not written'));
  }

  /** Resolves when all recorded Events are written. */
  close(): Promise<void> {
    return this.#writes.idle();
  }

  async #write(object: KubeObject, type: string, reason: string, message: string): Promise<void> {
    const key = [object.metadata.uid, type, reason, message].join('\0');
    const now = timestamp(new Date());
    const known = this.#series.get(key);
    if (known && (await this.#raise(known, now))) return;
    const path = `/api/v1/namespaces/${object.metadata.namespace ?? 'default'}/events`;
    const suffix = (eventCount++ % 65536).toString(16).padStart(4, '0');
    const name = `${object.metadata.name}.${Date.now().toString(16)}${suffix}`;
    await this.#options.client.create(path, {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name },
      involvedObject: reference(object),
      type,
      reason,
      message,
      count: 1,
      firstTimestamp: now,
      lastTimestamp: now,
      source: { component: this.#options.component },
      reportingComponent: this.#options.component,
      reportingInstance: this.#options.component,
    });
    remember(this.#series, key, { name, path: `${path}/${name}`, count: 1 });
  }

  /** Returns false if the Event no longer exists: API servers keep Events for about an hour. */
  async #raise(series: Series, lastTimestamp: string): Promise<boolean> {
    try {
      await this.#options.client.patch(series.path, { count: series.count + 1, lastTimestamp });
      series.count += 1;
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }
}

let eventCount = 0;

function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > MEMORY) map.delete(map.keys().next().value as string);
}

function reference({ apiVersion, kind, metadata }: KubeObject) {
  const { name, namespace, uid, resourceVersion } = metadata;
  return { apiVersion, kind, name, uid, resourceVersion, ...(namespace ? { namespace } : {}) };
}
