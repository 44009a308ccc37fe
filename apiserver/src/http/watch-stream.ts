/**
 * One watch. It reads the history at its own position whenever the client takes more, so nothing is buffered for a slow
 * client: one that falls out of the history is told 410 and one that stops reading is cut.
 */
import type { Resource } from '../resources/resource.js';
import type { Collection } from '../storage/collection.js';
import type { Change, ChangeType, StoredObject } from '../storage/stored-object.js';
import { eventJson, type Presentation, plainJson } from './presentation.js';
import type { Request } from './request.js';
import type { Matcher } from './selectors.js';

const BOOKMARK_INTERVAL_MS = 60_000;
/** A client that takes nothing for this long is gone. */
const STALL_MS = 30_000;
/** Written at once, before asking whether the client takes more. */
const CHUNK_CHARACTERS = 256 * 1024;

export interface WatchPlan {
  request: Request;
  collection: Collection;
  presentation: Presentation;
  namespace: string | undefined;
  matches: Matcher | undefined;
  /** Objects to begin with, as ADDED. */
  initial: readonly StoredObject[];
  /** Whether a bookmark says that those were all. */
  announceInitial: boolean;
  /** Position in the history to go on from. */
  position: number;
  bookmarks: boolean;
  timeoutMs: number;
  revision(): number;
}

/** The event of a change, serialised once for all watchers that want it as it is. */
const frames = new WeakMap<Change, string>();

export class WatchStream {
  readonly #plan: WatchPlan;
  #position: number;
  #initial = 0;
  #announced: boolean;
  #blocked = false;
  #first = true;
  #timers: NodeJS.Timeout[] = [];
  #stall: NodeJS.Timeout | undefined;
  readonly #onChange = () => this.#pump();

  constructor(plan: WatchPlan) {
    this.#plan = plan;
    this.#position = plan.position;
    this.#announced = !plan.announceInitial;
  }

  get resource(): Resource {
    return this.#plan.presentation.resource;
  }

  start(): void {
    const { request, collection, timeoutMs, bookmarks } = this.#plan;
    const { response } = request;
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' });
    response.flushHeaders();
    response.on('drain', () => this.#resume());
    response.on('close', () => this.stop());
    collection.listeners.add(this.#onChange);
    this.#timers.push(setTimeout(() => this.#finish(), timeoutMs));
    if (bookmarks) this.#timers.push(setInterval(() => this.#bookmark(), BOOKMARK_INTERVAL_MS));
    this.#pump();
  }

  stop(): void {
    this.#plan.collection.listeners.delete(this.#onChange);
    for (const timer of this.#timers) clearTimeout(timer);
    clearTimeout(this.#stall);
  }

  end(): void {
    this.stop();
    this.#plan.request.response.end();
  }

  #resume(): void {
    this.#blocked = false;
    clearTimeout(this.#stall);
    this.#pump();
  }

  #pump(): void {
    while (!this.#blocked) {
      const chunk = this.#nextChunk();
      if (chunk === undefined) return;
      if (chunk !== '') this.#write(chunk);
    }
  }

  #write(text: string): void {
    const { response } = this.#plan.request;
    if (response.destroyed || response.writableEnded || response.write(text)) return;
    this.#blocked = true;
    this.#stall = setTimeout(() => response.destroy(), STALL_MS);
  }

  /** The next events, '' when none of them is for this watch, undefined when there are none yet. */
  #nextChunk(): string | undefined {
    const { initial, collection } = this.#plan;
    if (this.#initial < initial.length) return this.#initialChunk();
    if (!this.#announced) {
      this.#announced = true;
      return this.#bookmarkFrame({ 'k8s.io/initial-events-end': 'true' });
    }
    const { history } = collection;
    if (!history.holds(this.#position)) return this.#expire();
    if (this.#position >= history.end) return undefined;
    let chunk = '';
    while (this.#position < history.end && chunk.length < CHUNK_CHARACTERS) {
      chunk += this.#frame(history.at(this.#position++) as Change);
    }
    return chunk;
  }

  #initialChunk(): string {
    const { initial, presentation } = this.#plan;
    let chunk = '';
    while (this.#initial < initial.length && chunk.length < CHUNK_CHARACTERS) {
      const stored = initial[this.#initial++] as StoredObject;
      chunk += eventFrame('ADDED', eventJson(presentation, stored, { first: this.#isFirst() }));
    }
    return chunk;
  }

  /** '' when the change is nothing to this watch. An object that starts or stops matching comes or goes. */
  #frame(change: Change): string {
    const { namespace, matches, presentation } = this.#plan;
    const { stored, previous, type } = change;
    if (namespace !== undefined && stored.namespace !== namespace) return '';
    if (presentation.form === 'object' && !matches) return sharedFrame(change, presentation.resource);
    const now = type !== 'DELETED' && (!matches || matches(stored.object));
    const before = previous !== undefined && (!matches || matches(previous.object));
    if (now) {
      const json = eventJson(presentation, stored, { first: this.#isFirst() });
      return eventFrame(before ? 'MODIFIED' : 'ADDED', json);
    }
    if (!before) return '';
    const last = { first: this.#isFirst(), revision: stored.revision };
    return eventFrame('DELETED', eventJson(presentation, previous as StoredObject, last));
  }

  #isFirst(): boolean {
    const first = this.#first;
    this.#first = false;
    return first;
  }

  #expire(): string | undefined {
    const status = {
      ...{ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure' },
      ...{ message: 'too old resource version: the watch fell behind', reason: 'Expired', code: 410 },
    };
    this.#write(`${JSON.stringify({ type: 'ERROR', object: status })}\n`);
    this.end();
    return undefined;
  }

  #bookmarkFrame(annotations?: Record<string, string>): string {
    const { kind, apiVersion } = this.#plan.presentation.resource;
    const metadata = { resourceVersion: String(this.#plan.revision()), ...(annotations && { annotations }) };
    return `${JSON.stringify({ type: 'BOOKMARK', object: { kind, apiVersion, metadata } })}\n`;
  }

  #bookmark(): void {
    if (this.#isCurrent()) this.#write(this.#bookmarkFrame());
  }

  #isCurrent(): boolean {
    return !this.#blocked && this.#position === this.#plan.collection.history.end;
  }

  #finish(): void {
    if (this.#plan.bookmarks) this.#bookmark();
    this.end();
  }
}

const eventFrame = (type: ChangeType, json: string) => `{"type":"${type}","object":${json}}\n`;

function sharedFrame(change: Change, resource: Resource): string {
  if (change.stored.object.apiVersion !== resource.apiVersion) {
    return eventFrame(change.type, plainJson(resource, change.stored));
  }
  let frame = frames.get(change);
  if (frame === undefined) frames.set(change, (frame = eventFrame(change.type, change.stored.json)));
  return frame;
}
