/**
 * Writes the statuses of one resource: each where it differs, told of by an Event when the object's readiness changes.
 * In: an object and its status. Out: the object as written; and whether a change is such a write of ours. What another
 * wrote (an operator that hung while it led, a person) is not ours, so that the object is looked at again.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Condition } from '@slipway/crds';
import type { EventRecorder } from './events.js';
import type { Informer } from './informer.js';
import type { KubeClient, KubeObject } from './kube.js';
import { mergePatch } from './merge-patch.js';

interface Status {
  phase?: string | undefined;
  conditions?: Condition[] | undefined;
}

interface WithStatus extends KubeObject {
  status?: Status | undefined;
}

export interface StatusWriterOptions<T> {
  client: KubeClient;
  cache: Informer<T & KubeObject>;
  events: EventRecorder;
  pathOf(object: T): string;
}

export class StatusWriter<T extends WithStatus> {
  readonly #options: StatusWriterOptions<T>;
  /** By uid, until the answer is in the cache. */
  readonly #underWay = new Map<string, object>();

  constructor(options: StatusWriterOptions<T>) {
    this.#options = options;
  }

  async write(object: T, status: NonNullable<T['status']>): Promise<T> {
    const patch = mergePatch({ ...object.status }, { ...status });
    if (!patch) return object;
    const { client, cache, pathOf } = this.#options;
    const uid = object.metadata.uid as string;
    this.#underWay.set(uid, status);
    try {
      // With the uid, so that an object made anew under the same name is not given the state of the one before.
      const written = await client.patch<T>(`${pathOf(object)}/status`, { metadata: { uid }, status: patch });
      cache.learn(written);
      this.#announce(object, status);
      return written;
    } finally {
      this.#underWay.delete(uid);
    }
  }

  /** Nothing but the status changed, and to what we write there. The watch may tell of it before the answer does. */
  isOwn(before: T, after: T): boolean {
    if (!isDeepStrictEqual(substanceOf(before), substanceOf(after))) return false;
    const wanted = this.#underWay.get(after.metadata.uid as string) ?? before.status;
    return !mergePatch({ ...after.status }, { ...wanted });
  }

  #announce(object: T, status: Status): void {
    const [before, after] = [object.status, status].map((each) =>
      each?.conditions?.find(({ type }) => type === 'Ready'),
    );
    if (!after || (before?.reason === after.reason && before.message === after.message)) return;
    this.#options.events.record(object, status.phase === 'error' ? 'Warning' : 'Normal', after.reason, after.message);
  }
}

const substanceOf = ({ metadata }: KubeObject) => [
  metadata.uid,
  metadata.generation,
  metadata.deletionTimestamp,
  metadata.finalizers,
  metadata.annotations,
  metadata.labels,
];
