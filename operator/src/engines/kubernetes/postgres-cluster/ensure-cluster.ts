/**
 * Creates one Postgres cluster, or repairs its drift. In: the request. Out: its progress, and a superuser's URL once
 * the cluster accepts connections. Sends no request to the API server if nothing differs. Called by `clusters.ts`.
 */
import { isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import type { EngineOutcome } from '../../../capabilities/index.js';
import type { Children } from '../children/children.js';
import { type Claim, diagnose } from '../children/diagnosis.js';
import { ensureAll } from '../children/ensure-all.js';
import type { Pod } from '../children/kinds.js';
import {
  type CloudNativePgCluster,
  cloudNativePgObjects,
  outcomeOfCloudNativePg,
  SUPERUSER as THEIR_SUPERUSER,
} from './cloudnative-pg.js';
import type { ClusterRequest } from './cluster.js';
import { hostOf, type Place } from './place.js';
import { isSettled, SUPERUSER as OUR_SUPERUSER, type StatefulSet, statefulSetObjects } from './stateful-set.js';
import { warningOf } from './warnings.js';

export interface EnsuredCluster {
  outcome: EngineOutcome;
  /** Descriptions of drift that was repaired. */
  restored: string[];
}

/** Name of the kind that CloudNativePG serves. */
export const CLOUD_NATIVE_PG = 'Cluster';
/**
 * Milliseconds that it usually takes to create a volume and schedule a pod. Until then, a missing volume or node is no
 * failure.
 */
const USUAL_MS = 10_000;

/** `waitedMs`: the time for which it has not been ready. */
export async function ensureCluster(
  client: KubeClient,
  children: Children,
  request: ClusterRequest,
  waitedMs: number,
): Promise<EnsuredCluster> {
  const theirs = await theirsUnseen(client, children, request.place);
  if (theirs) return { outcome: theirs, restored: [] };
  const applied = await ensureAll(children, objectsOf(children, request));
  if (applied.state !== 'ready') return { outcome: applied, restored: [] };
  const restored = [...(applied.restored ?? [])];
  const outcome = clusterOutcome(children, request);
  if (outcome.state === 'ready') return { outcome, restored };
  if (waitedMs < USUAL_MS) return { outcome: usual(outcome), restored };
  return { outcome: await explained(client, children, request, outcome), restored };
}

/**
 * Returns a failure if the cluster is one of CloudNativePG that the operator may not use. Called before any object is
 * made: an empty Postgres of ours, and its Service, would replace a CloudNativePG cluster with data.
 */
export async function theirsUnseen(
  client: KubeClient,
  children: Children,
  place: Place,
): Promise<EngineOutcome | undefined> {
  if (children.serves(CLOUD_NATIVE_PG) || clusterExists(children, place)) return undefined;
  const { namespace, name } = place;
  const service = await client.get<KubeObject>(`/api/v1/namespaces/${namespace}/services/${name}`).catch((error) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
  if (!service?.metadata.ownerReferences?.some(({ kind }) => kind === CLOUD_NATIVE_PG)) return undefined;
  const message =
    `Postgres ${name} in ${namespace} is a CloudNativePG cluster, which the operator may not use: ` +
    'apply the component cloudnative-pg, and restart the operator';
  return { state: 'failed', reason: 'CloudNativePGForbidden', message, retry: true };
}

function objectsOf(children: Children, request: ClusterRequest) {
  const { namespace, name } = request.place;
  return isTheirs(children, request.place)
    ? cloudNativePgObjects(request, children.get<CloudNativePgCluster>(CLOUD_NATIVE_PG, namespace, name))
    : statefulSetObjects(request, children.get<StatefulSet>('StatefulSet', namespace, name));
}

/**
 * True if CloudNativePG runs the cluster. A cluster that was made before CloudNativePG was installed stays as it is,
 * with its data.
 */
const isTheirs = (children: Children, place: Place) => children.serves(CLOUD_NATIVE_PG) && !isOurs(children, place);

const isOurs = (children: Children, place: Place) =>
  children.get('StatefulSet', place.namespace, place.name) !== undefined ||
  children.get('PersistentVolumeClaim', place.namespace, claimOf(place)) !== undefined;

type Wanted = Pick<ClusterRequest, 'place' | 'suspended'>;

/** Returns the state of the cluster, from the caches. */
export function clusterOutcome(children: Children, { place, suspended }: Wanted): EngineOutcome {
  const { namespace, name } = place;
  if (isTheirs(children, place)) {
    return outcomeOfCloudNativePg(children.get<CloudNativePgCluster>(CLOUD_NATIVE_PG, namespace, name), suspended);
  }
  const set = children.get<StatefulSet>('StatefulSet', namespace, name);
  if (isSettled(set, suspended)) return { state: 'ready', value: undefined };
  const pod = children.get<Pod>('Pod', namespace, `${name}-0`);
  const claim = children.get<Claim>('PersistentVolumeClaim', namespace, claimOf(place));
  return diagnose(`Postgres ${name}`, set, pod ? [pod] : [], claim ? [claim] : []);
}

/** Adds the reason of a failure that only Events have. */
async function explained(
  client: KubeClient,
  children: Children,
  { place }: ClusterRequest,
  outcome: EngineOutcome,
): Promise<EngineOutcome> {
  const { namespace, name } = place;
  if (isTheirs(children, place) || outcome.state === 'ready') return outcome;
  if (outcome.state === 'failed') {
    if (outcome.reason !== 'UnboundClaim') return outcome;
    const warning = await warningOf(client, { kind: 'PersistentVolumeClaim', namespace, name: claimOf(place) });
    return warning ? { ...outcome, message: `Postgres ${name} waits for its volume: ${quote(warning)}` } : outcome;
  }
  if (children.get('Pod', namespace, `${name}-0`)) return outcome;
  const warning = await warningOf(client, { kind: 'StatefulSet', namespace, name });
  if (!warning) return outcome;
  const reason = /exceeded quota/.test(warning) ? 'QuotaExceeded' : 'FailedCreate';
  return { state: 'failed', reason, message: `Postgres ${name} is refused: ${quote(warning)}`, retry: true };
}

const WAITED_FOR = ['UnboundClaim', 'Unschedulable'];
const LOOK_AGAIN_MS = 1_000;

const usual = (outcome: EngineOutcome): EngineOutcome =>
  outcome.state === 'failed' && WAITED_FOR.includes(outcome.reason)
    ? { state: 'progressing', message: outcome.message, lookAgainMs: LOOK_AGAIN_MS }
    : outcome;

const quote = (text: string) => text.replace(/\s+/g, ' ').trim().slice(0, 300);

/** Returns the name of the volume claim, which the StatefulSet makes. */
const claimOf = ({ name }: Place) => `data-${name}-0`;

/** Whether any part of the cluster was ever made: its volume outlives its servers. */
export const clusterExists = (children: Children, place: Place) =>
  isOurs(children, place) ||
  (children.serves(CLOUD_NATIVE_PG) && children.get(CLOUD_NATIVE_PG, place.namespace, place.name) !== undefined);

/** Returns the URL of the superuser. Undefined: the cluster has no address yet. */
export function superuserUrl(children: Children, { place, password }: ClusterRequest): string | undefined {
  const theirs = isTheirs(children, place);
  const address = theirs ? hostOf(place) : serviceAddress(children, place);
  const user = theirs ? THEIR_SUPERUSER : OUR_SUPERUSER;
  return address && `postgresql://${user}:${encodeURIComponent(password)}@${address}:5432/postgres`;
}

/**
 * Returns the IP address of the Service, not its name. The cluster's DNS caches for a while that a name does not exist,
 * if it was looked up before its Service existed.
 */
function serviceAddress(children: Children, { namespace, name }: Place): string | undefined {
  const service = children.get<KubeObject & { spec?: { clusterIP?: string } }>('Service', namespace, name);
  const address = service?.spec?.clusterIP;
  return address?.includes(':') ? `[${address}]` : address;
}
