/**
 * Makes one Postgres cluster be there, or puts it right. In: what is asked. Out: how far it is, and a superuser's URL once it takes
 * connections. Costs the API server nothing where all is as it should be. Called by `clusters.ts`.
 */
import type { KubeObject } from '../../../runtime/kube.js';
import type { Children } from '../children/children.js';
import type { Pod } from '../children/kinds.js';
import {
  type CloudNativePgCluster,
  cloudNativePgObjects,
  stateOfCloudNativePg,
  SUPERUSER as THEIR_SUPERUSER,
} from './cloudnative-pg.js';
import type { ClusterRequest, ClusterState } from './cluster.js';
import { troubleOf } from './diagnosis.js';
import { hostOf, type Place } from './place.js';
import {
  SUPERUSER as OUR_SUPERUSER,
  type StatefulSet,
  statefulSetObjects,
  stateOfStatefulSet,
} from './stateful-set.js';

export interface EnsuredCluster {
  state: ClusterState;
  /** What others had changed, in words. */
  restored: string[];
}

const CLOUD_NATIVE_PG = 'Cluster';

export async function ensureCluster(children: Children, request: ClusterRequest): Promise<EnsuredCluster> {
  const restored: string[] = [];
  for (const object of objectsOf(children, request)) {
    const said = await children.ensure(object);
    if (said) restored.push(said);
  }
  return { state: clusterState(children, request), restored };
}

function objectsOf(children: Children, request: ClusterRequest) {
  const { namespace, name } = request.place;
  return children.serves(CLOUD_NATIVE_PG)
    ? cloudNativePgObjects(request, children.get<CloudNativePgCluster>(CLOUD_NATIVE_PG, namespace, name))
    : statefulSetObjects(request, children.get<StatefulSet>('StatefulSet', namespace, name));
}

/** As the caches have it. */
export function clusterState(
  children: Children,
  { place, suspended }: Pick<ClusterRequest, 'place' | 'suspended'>,
): ClusterState {
  const { namespace, name } = place;
  if (children.serves(CLOUD_NATIVE_PG)) {
    return stateOfCloudNativePg(children.get<CloudNativePgCluster>(CLOUD_NATIVE_PG, namespace, name), suspended);
  }
  const set = children.get<StatefulSet>('StatefulSet', namespace, name);
  const pod = children.get<Pod>('Pod', namespace, `${name}-0`);
  return (
    stateOfStatefulSet(set, suspended) ??
    (pod && troubleOf(pod)) ?? { state: 'progressing', message: `waiting for Postgres ${name} to start` }
  );
}

/** Whether anything of it was ever made: its volume outlives its servers. */
export const clusterExists = (children: Children, { namespace, name }: Place) =>
  [
    children.serves(CLOUD_NATIVE_PG) && children.get(CLOUD_NATIVE_PG, namespace, name),
    children.get('StatefulSet', namespace, name),
    children.get('PersistentVolumeClaim', namespace, `data-${name}-0`),
  ].some(Boolean);

/** Undefined: it has no address yet. */
export function superuserUrl(children: Children, { place, password }: ClusterRequest): string | undefined {
  const theirs = children.serves(CLOUD_NATIVE_PG);
  const address = theirs ? hostOf(place) : serviceAddress(children, place);
  const user = theirs ? THEIR_SUPERUSER : OUR_SUPERUSER;
  return address && `postgresql://${user}:${encodeURIComponent(password)}@${address}:5432/postgres`;
}

/** Not its name: one that was asked for before there was a Service is unknown to the cluster's DNS for a while. */
function serviceAddress(children: Children, { namespace, name }: Place): string | undefined {
  const service = children.get<KubeObject & { spec?: { clusterIP?: string } }>('Service', namespace, name);
  const address = service?.spec?.clusterIP;
  return address?.includes(':') ? `[${address}]` : address;
}
