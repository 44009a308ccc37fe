/**
 * The kinds of objects that a project is made of on a cluster: where the API serves each, and what of it is worth
 * keeping in memory. A kind that not every cluster serves is asked for by `available-kinds.ts` before it is watched.
 */
import type { KubeObject } from '../../../runtime/kube.js';
import { metadataOnly } from '../../../runtime/metadata-only.js';
import { isSettingsMap } from '../postgres-cluster/settings-map.js';
import { FORBIDDEN_IN_PODS, FORBIDDEN_IN_SERVICES } from './forbidden-fields.js';

export interface Kind {
  kind: string;
  apiVersion: string;
  plural: string;
  /** Its `spec` or `data` is wholly ours: what is in it beyond what we asked for was put there by somebody. */
  exact: boolean;
  /** Fields among those that the API server fills with defaults. */
  filled: readonly string[];
  /** Fields that nothing fills in, and that are not to be there unless we say so. */
  forbidden: ReadonlySet<string>;
  /** Whether anyone goes by its status. */
  status: boolean;
}

const kindOf = (apiVersion: string, kind: string, plural: string, more: Partial<Kind> = {}): Kind => ({
  apiVersion,
  kind,
  plural,
  exact: false,
  filled: [],
  forbidden: new Set(),
  status: false,
  ...more,
});

export const KINDS: readonly Kind[] = [
  kindOf('v1', 'Service', 'services', { forbidden: FORBIDDEN_IN_SERVICES }),
  kindOf('v1', 'ConfigMap', 'configmaps', { exact: true }),
  kindOf('v1', 'ResourceQuota', 'resourcequotas', { exact: true }),
  kindOf('v1', 'LimitRange', 'limitranges', { exact: true }),
  kindOf('v1', 'PersistentVolumeClaim', 'persistentvolumeclaims', { status: true }),
  kindOf('v1', 'Pod', 'pods', { status: true }),
  kindOf('apps/v1', 'Deployment', 'deployments', { forbidden: FORBIDDEN_IN_PODS, status: true }),
  kindOf('apps/v1', 'StatefulSet', 'statefulsets', { forbidden: FORBIDDEN_IN_PODS, status: true }),
  kindOf('networking.k8s.io/v1', 'NetworkPolicy', 'networkpolicies', { exact: true }),
  kindOf('networking.k8s.io/v1', 'Ingress', 'ingresses', { exact: true, filled: ['ingressClassName'] }),
];

/** Watched elsewhere in the operator already, by a cache that is handed in. */
export const SECRET = kindOf('v1', 'Secret', 'secrets', { exact: true });
export const NAMESPACE = kindOf('v1', 'Namespace', 'namespaces');

/** Only where their CRDs are installed. */
export const OPTIONAL_KINDS: readonly Kind[] = [
  kindOf('gateway.networking.k8s.io/v1', 'HTTPRoute', 'httproutes', { status: true }),
  kindOf('postgresql.cnpg.io/v1', 'Cluster', 'clusters', { status: true }),
];

const rootOf = (apiVersion: string) => (apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`);

/** Returns the path of all objects of the kind, in all namespaces. */
export const pathOfKind = ({ apiVersion, plural }: Kind) => `${rootOf(apiVersion)}/${plural}`;

export function pathOf({ apiVersion, plural }: Kind, name: string, namespace: string | undefined): string {
  const place = namespace ? `namespaces/${namespace}/` : '';
  return `${rootOf(apiVersion)}/${place}${plural}/${name}`;
}

/** Returns how the cache reduces an object: hundreds of each are in memory. */
export function keepOf(kind: Kind): (object: KubeObject) => KubeObject {
  if (kind.kind === 'Pod') return keepOfPod;
  // The code of functions is in ConfigMaps of ours as well, and people may make any number of them.
  if (kind.kind === 'ConfigMap') return (object) => (isSettingsMap(object) ? object : metadataOnly(object));
  return (object) => {
    const { status, ...rest } = object as KubeObject & { status?: unknown };
    return { ...rest, ...(kind.status && status ? { status } : {}) } as KubeObject;
  };
}

/** The part of a pod that tells why it does not run. */
export interface Pod extends KubeObject {
  status?: {
    phase?: string;
    reason?: string;
    message?: string;
    conditions?: { type: string; status: string; reason?: string; message?: string }[];
    initContainerStatuses?: ContainerStatus[];
    containerStatuses?: ContainerStatus[];
  };
}

export interface ContainerStatus {
  name: string;
  image?: string;
  ready?: boolean;
  restartCount?: number;
  state?: ContainerState;
  lastState?: ContainerState;
}

export interface ContainerState {
  waiting?: { reason?: string; message?: string };
  terminated?: { reason?: string; message?: string; exitCode?: number };
}

function keepOfPod(object: KubeObject): KubeObject {
  const { metadata, status = {} } = object as Pod;
  const { name, namespace, uid, resourceVersion, labels, deletionTimestamp, ownerReferences } = metadata;
  const kept = { name, namespace, uid, resourceVersion, labels, deletionTimestamp, ownerReferences };
  const { phase, reason, message, conditions, initContainerStatuses, containerStatuses } = status;
  return {
    metadata: JSON.parse(JSON.stringify(kept)),
    status: JSON.parse(
      JSON.stringify({ phase, reason, message, conditions, initContainerStatuses, containerStatuses }),
    ),
  } as Pod;
}
