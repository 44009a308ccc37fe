/**
 * Determines the place of a project's Postgres: the one that its region shares, or one of its own. Pure. Called by
 * `clusters.ts`.
 */
import { type Region } from '@slipway/crds';
import {
  DATA_NAMESPACE,
  LABEL_CLUSTER,
  LABEL_MANAGED_BY,
  LABEL_PART,
  LABEL_PROJECT,
  MANAGED_BY,
  namespaceOf,
  PART_POSTGRES,
  type Site,
  sharedClusterOf,
} from '@slipway/installation';
import type { EngineProject } from '../../../capabilities/index.js';
import { type Owner, ownerReference } from '../../../runtime/owner-reference.js';

export interface Place {
  namespace: string;
  /** The name of the cluster and of its Service. */
  name: string;
  /** The project that owns the cluster. Undefined: projects share it. */
  project?: Owner & { retain: boolean };
}

const OWN_CLUSTER = PART_POSTGRES;

export const sharedPlace = (region: Region): Place => ({ namespace: DATA_NAMESPACE, name: sharedClusterOf(region) });

export const ownPlace = ({ ref, uid, retain }: NonNullable<Place['project']>): Place => ({
  namespace: namespaceOf(ref),
  name: OWN_CLUSTER,
  project: { ref, uid, retain },
});

/** Returns the place that the project's plan requires. */
export const placeOf = (
  project: Pick<EngineProject, 'ref' | 'uid' | 'region' | 'plan' | 'retain'>,
  { plans }: Site,
): Place => (plans[project.plan].ownDatabase ? ownPlace(project) : sharedPlace(project.region));

export const hostOf = ({ namespace, name }: Place) => `${name}.${namespace}.svc`;

/** Returns the `metadata` of an object that is part of the cluster. */
export function metadataOf({ namespace, name: cluster, project }: Place, name: string) {
  return {
    name,
    namespace,
    labels: labelsOf({ namespace, name: cluster, ...(project ? { project } : {}) }),
    ...(project ? { ownerReferences: [ownerReference(project)] } : {}),
  };
}

/** Returns the metadata of an object that contains data: it is not deleted with a Project that retains. */
export function metadataOfKept(place: Place, name: string) {
  const { ownerReferences, ...metadata } = metadataOf(place, name);
  return place.project?.retain || !ownerReferences ? metadata : { ...metadata, ownerReferences };
}

export const labelsOf = ({ name, project }: Place): Record<string, string> => ({
  ...podSelector({ name, namespace: '' }),
  'app.kubernetes.io/component': 'database',
  'app.kubernetes.io/part-of': MANAGED_BY,
  [LABEL_MANAGED_BY]: MANAGED_BY,
  [LABEL_PART]: PART_POSTGRES,
  ...(project ? { [LABEL_PROJECT]: project.ref, 'app.kubernetes.io/instance': project.ref } : {}),
});

/** The labels that select the pods of the cluster. */
export const podSelector = ({ name }: Place) => ({
  'app.kubernetes.io/name': 'postgres',
  [LABEL_CLUSTER]: name,
});
