import type { KubeObject } from '../objects.js';

/** One version of one object. `json` is what Postgres holds and what clients are sent. */
export interface StoredObject {
  /** `secrets`, `projects.slipway.dev`. */
  readonly resource: string;
  /** '' for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  readonly revision: number;
  readonly object: KubeObject;
  readonly json: string;
}

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED';

/** One committed write. Of a deletion, `stored` is the last state under the deletion's revision. */
export interface Change {
  readonly type: ChangeType;
  readonly stored: StoredObject;
  readonly previous: StoredObject | undefined;
}

export const newVersion = (
  at: { resource: string; namespace: string; name: string },
  revision: number,
  object: KubeObject,
): StoredObject => {
  object.metadata.resourceVersion = String(revision);
  const { resource, namespace, name } = at;
  return { resource, namespace, name, revision, object, json: JSON.stringify(object) };
};
