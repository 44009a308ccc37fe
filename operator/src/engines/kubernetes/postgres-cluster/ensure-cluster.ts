/**
 * Makes one Postgres cluster be there, or puts it right. In: what is asked. Out: how far it is, and a superuser's URL
 * once it takes connections. Costs the API server nothing where all is as it should be. Called by `clusters.ts`.
 */
import { isNotFound, type KubeClient, type KubeObject } from '../../../runtime/kube.js';
import type { EngineOutcome } from '../../engine.js';
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

/** The kind that CloudNativePG serves. */
export const CLOUD_NATIVE_PG = 'Cluster';
/** In so long a volume is made and a pod gets its place: what they lack before is no trouble yet. */
const USUAL_MS = 10_000;

/** `waitedMs`: how long it has not been ready. */
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
 * Before anything of it is made: an empty Postgres of ours, and its Service, would take the place of one of
 * CloudNativePG with data.
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
    `Postgres ${name} in ${namespace} is one of CloudNativePG, which the operator may not use: ` +
    'apply the component cloudnative-pg, and restart the operator';
  return { state: 'failed', reason: 'CloudNativePGForbidden', message, retry: true };
}

function objectsOf(children: Children, request: ClusterRequest) {
  const { namespace, name } = request.place;
  return isTheirs(children, request.place)
    ? cloudNativePgObjects(request, children.get<CloudNativePgCluster>(CLOUD_NATIVE_PG, namespace, name))
    : statefulSetObjects(request, children.get<StatefulSet>('StatefulSet', namespace, name));
}

/** One that was made before CloudNativePG came stays as it is, with its data. */
const isTheirs = (children: Children, place: Place) => children.serves(CLOUD_NATIVE_PG) && !isOurs(children, place);

const isOurs = (children: Children, place: Place) =>
  children.get('StatefulSet', place.namespace, place.name) !== undefined ||
  children.get('PersistentVolumeClaim', place.namespace, claimOf(place)) !== undefined;

type Wanted = Pick<ClusterRequest, 'place' | 'suspended'>;

/** Returns the state of the cluster, as the caches have it. */
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

/** With what is told by Events alone. */
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
    const said = await warningOf(client, { kind: 'PersistentVolumeClaim', namespace, name: claimOf(place) });
    return said ? { ...outcome, message: `Postgres ${name} waits for its volume: ${quote(said)}` } : outcome;
  }
  if (children.get('Pod', namespace, `${name}-0`)) return outcome;
  const said = await warningOf(client, { kind: 'StatefulSet', namespace, name });
  if (!said) return outcome;
  const reason = /exceeded quota/.test(said) ? 'QuotaExceeded' : 'FailedCreate';
  return { state: 'failed', reason, message: `Postgres ${name} is refused: ${quote(said)}`, retry: true };
}

const WAITED_FOR = ['UnboundClaim', 'Unschedulable'];
const LOOK_AGAIN_MS = 1_000;

const usual = (outcome: EngineOutcome): EngineOutcome =>
  outcome.state === 'failed' && WAITED_FOR.includes(outcome.reason)
    ? { state: 'progressing', message: outcome.message, lookAgainMs: LOOK_AGAIN_MS }
    : outcome;

const quote = (text: string) => text.replace(/\s+/g, ' ').trim().slice(0, 300);

/** Made by the StatefulSet. */
const claimOf = ({ name }: Place) => `data-${name}-0`;

/** Whether anything of it was ever made: its volume outlives its servers. */
export const clusterExists = (children: Children, place: Place) =>
  isOurs(children, place) ||
  (children.serves(CLOUD_NATIVE_PG) && children.get(CLOUD_NATIVE_PG, place.namespace, place.name) !== undefined);

/** Undefined: it has no address yet. */
export function superuserUrl(children: Children, { place, password }: ClusterRequest): string | undefined {
  const theirs = isTheirs(children, place);
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
