/**
 * Events (core/v1) on objects, for `kubectl describe`. The same thing said again raises a count; an object that says
 * too much is cut short. Writing happens in the background and may fail: an Event is a courtesy, not a record.
 */
import type { Logger } from 'pino';
import { timestamp } from './conditions.js';
import { isNotFound, type KubeClient, type KubeObject } from './kube.js';

export interface EventOptions {
  client: KubeClient;
  component: string;
  log: Logger;
}

/** Per object: so many at once, then one each REFILL_MS, as client-go has it. */
const BURST = 25;
const REFILL_MS = 300_000;
/** How many series and objects are remembered; the oldest are forgotten first. */
const MEMORY = 4096;
const MAX_WAITING = 1000;
const MESSAGE_LIMIT = 1024;

interface Series {
  name: string;
  path: string;
  count: number;
}

export class EventRecorder {
  readonly #options: EventOptions;
  readonly #series = new Map<string, Series>();
  readonly #budgets = new Map<string, { tokens: number; at: number }>();
  #waiting = 0;
  #tail: Promise<void> = Promise.resolve();

  constructor(options: EventOptions) {
    this.#options = options;
  }

  record(object: KubeObject, type: 'Normal' | 'Warning', reason: string, message: string): void {
    if (this.#waiting >= MAX_WAITING || !this.#afford(object.metadata.uid ?? object.metadata.name)) return;
    this.#waiting += 1;
    this.#tail = this.#tail
      .then(() => this.#write(object, type, reason, message.slice(0, MESSAGE_LIMIT)))
      .catch((error: Error) => this.#options.log.warn({ why: error.message, reason }, 'Event not written'))
      .finally(() => {
        this.#waiting -= 1;
      });
  }

  /** Resolves when all that was recorded is written. */
  close(): Promise<void> {
    return this.#tail;
  }

  async #write(object: KubeObject, type: string, reason: string, message: string): Promise<void> {
    const key = [object.metadata.uid, type, reason, message].join('\0');
    const now = timestamp(new Date());
    const known = this.#series.get(key);
    if (known && (await this.#raise(known, now))) return;
    const path = `/api/v1/namespaces/${object.metadata.namespace ?? 'default'}/events`;
    const name = `${object.metadata.name}.${Date.now().toString(16)}${(eventCount++ % 65536).toString(16).padStart(4, '0')}`;
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

  /** False when the Event is gone (they are kept for an hour or so). */
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

  #afford(uid: string): boolean {
    const now = performance.now();
    const budget = this.#budgets.get(uid) ?? { tokens: BURST, at: now };
    const tokens = Math.min(BURST, budget.tokens + (now - budget.at) / REFILL_MS);
    remember(this.#budgets, uid, { tokens: tokens < 1 ? tokens : tokens - 1, at: now });
    return tokens >= 1;
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
