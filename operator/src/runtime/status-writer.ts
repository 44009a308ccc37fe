/**
 * Writes the statuses of one resource. It writes only changes, with an Event when the object's readiness changes. In:
 * an object and its status. Out: the object as written, and whether a change of the object is this operator's own
 * write.
 *
 * After a write by another client (a person, or an operator that hung while it led), the object is reconciled again.
 */

import { isDeepStrictEqual } from 'node:util';
import type { Condition } from '@slipway/crds';
import type { Informer, KubeClient, KubeObject } from '@slipway/kubernetes';
import type { EventRecorder } from './events.js';
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
  /** Statuses that are being written, by uid, until the response is in the cache. */
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
      // The patch has the uid: an object that was created again under the same name must not get the status of the
      // former one.
      const written = await client.patch<T>(`${pathOf(object)}/status`, { metadata: { uid }, status: patch });
      cache.learn(written);
      this.#announce(object, status);
      return written;
    } finally {
      this.#underWay.delete(uid);
    }
  }

  /**
   * True if only the status changed, and to the one that we write. The watch may report the change before the response
   * arrives.
   */
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
    this.#options.events.record(
      object,
      BAD.has(status.phase ?? '') ? 'Warning' : 'Normal',
      after.reason,
      after.message,
    );
  }
}

/** Phases of Projects, EdgeFunctions and Builds whose Event is a Warning. */
const BAD = new Set(['error', 'Failed']);

const substanceOf = ({ metadata }: KubeObject) => [
  metadata.uid,
  metadata.generation,
  metadata.deletionTimestamp,
  metadata.finalizers,
  metadata.annotations,
  metadata.labels,
];
