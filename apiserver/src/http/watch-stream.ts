/**
 * One watch. It reads the history at its own position whenever the client can receive more, so nothing is buffered for
 * a slow client. If the position is no longer in the history, the client gets 410. If the client stops reading, its
 * connection is closed.
 */
import type { Resource } from '../resources/resource.js';
import type { Collection } from '../storage/collection.js';
import type { Change, ChangeType, StoredObject } from '../storage/stored-object.js';
import { eventJson, type Json, type Presentation } from './presentation.js';
import type { Request } from './request.js';
import type { Matcher } from './selectors.js';

const BOOKMARK_INTERVAL_MS = 60_000;
/** Milliseconds after which a client that receives nothing is disconnected. */
const STALL_MS = 30_000;
/** Bytes that are written before the watch checks whether the client can receive more. One event may be larger. */
const CHUNK_BYTES = 256 * 1024;

export interface WatchPlan {
  request: Request;
  collection: Collection;
  presentation: Presentation;
  namespace: string | undefined;
  matches: Matcher | undefined;
  /** Objects that the watch sends first, as ADDED. */
  initial: readonly StoredObject[];
  /** True if a bookmark marks the end of these objects. */
  announceInitial: boolean;
  /** Position in the history at which the watch starts. */
  position: number;
  bookmarks: boolean;
  timeoutMs: number;
  revision(): number;
}

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
      if (chunk.length > 0) this.#write(chunk);
    }
  }

  #write(frames: readonly Buffer[]): void {
    const { response } = this.#plan.request;
    if (response.destroyed || response.writableEnded || response.write(Buffer.concat(frames))) return;
    this.#blocked = true;
    this.#stall = setTimeout(() => response.destroy(), STALL_MS);
  }

  /**
   * Returns the next events, or undefined if there are none yet. Returns an empty list if none of them is for this
   * watch.
   */
  #nextChunk(): Buffer[] | undefined {
    const { initial, collection } = this.#plan;
    if (this.#initial < initial.length) return this.#initialChunk();
    if (!this.#announced) {
      this.#announced = true;
      return [this.#bookmarkFrame({ 'k8s.io/initial-events-end': 'true' })];
    }
    const { history } = collection;
    if (!history.holds(this.#position)) return this.#expire();
    if (this.#position >= history.end) return undefined;
    const chunk = new Chunk();
    while (this.#position < history.end && !chunk.isFull)
      chunk.add(this.#frame(history.at(this.#position++) as Change));
    return chunk.frames;
  }

  #initialChunk(): Buffer[] {
    const { initial, presentation } = this.#plan;
    const chunk = new Chunk();
    while (this.#initial < initial.length && !chunk.isFull) {
      const stored = initial[this.#initial++] as StoredObject;
      chunk.add(eventFrame('ADDED', eventJson(presentation, stored, { first: this.#isFirst() })));
    }
    return chunk.frames;
  }

  /**
   * Returns the frames of a change. An object that starts or stops matching is sent as added or deleted. Returns no
   * frame for other objects.
   */
  #frame(change: Change): Buffer[] {
    const { namespace, matches, presentation } = this.#plan;
    const { stored, previous, type } = change;
    if (namespace !== undefined && stored.namespace !== namespace) return [];
    const now = type !== 'DELETED' && (!matches || matches(stored.outline));
    const before = previous !== undefined && (!matches || matches(previous.outline));
    if (now) {
      const json = eventJson(presentation, stored, { first: this.#isFirst() });
      return eventFrame(before ? 'MODIFIED' : 'ADDED', json);
    }
    if (!before) return [];
    const last = { first: this.#isFirst(), revision: stored.revision };
    return eventFrame('DELETED', eventJson(presentation, previous as StoredObject, last));
  }

  #isFirst(): boolean {
    const first = this.#first;
    this.#first = false;
    return first;
  }

  #expire(): undefined {
    const status = {
      ...{ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure' },
      ...{ message: 'too old resource version: the watch fell behind', reason: 'Expired', code: 410 },
    };
    this.#write(eventFrame('ERROR', JSON.stringify(status)));
    this.end();
    return undefined;
  }

  #bookmarkFrame(annotations?: Record<string, string>): Buffer {
    const { kind, apiVersion } = this.#plan.presentation.resource;
    const metadata = { resourceVersion: String(this.#plan.revision()), ...(annotations && { annotations }) };
    return Buffer.from(`${JSON.stringify({ type: 'BOOKMARK', object: { kind, apiVersion, metadata } })}\n`);
  }

  #bookmark(): void {
    if (this.#isCurrent()) this.#write([this.#bookmarkFrame()]);
  }

  #isCurrent(): boolean {
    return !this.#blocked && this.#position === this.#plan.collection.history.end;
  }

  #finish(): void {
    if (this.#plan.bookmarks) this.#bookmark();
    this.end();
  }
}

class Chunk {
  readonly frames: Buffer[] = [];
  #bytes = 0;

  add(frame: readonly Buffer[]): void {
    this.frames.push(...frame);
    for (const { length } of frame) this.#bytes += length;
  }

  get isFull(): boolean {
    return this.#bytes >= CHUNK_BYTES;
  }
}

const END_OF_EVENT = Buffer.from('}\n');

function eventFrame(type: ChangeType | 'ERROR', object: Json): Buffer[] {
  const bytes = typeof object === 'string' ? Buffer.from(object) : object;
  return [Buffer.from(`{"type":"${type}","object":`), bytes, END_OF_EVENT];
}
