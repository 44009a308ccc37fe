/**
 * The kinds of a project's objects on a cluster: the API path of each, and the parts of it that the caches keep.
 * `available-kinds.ts` checks that the cluster serves an optional kind before it is watched.
 */
import type { KubeObject } from '@slipway/kubernetes';
import { metadataOnly } from '../../../runtime/metadata-only.js';
import { isSettingsMap } from '../postgres-cluster/settings-map.js';
import { FORBIDDEN_IN_PODS, FORBIDDEN_IN_SERVICES } from './forbidden-fields.js';

export interface Kind {
  kind: string;
  apiVersion: string;
  plural: string;
  /** True if `spec` or `data` is wholly ours: any other field in it was added by somebody. */
  exact: boolean;
  /** Fields of an exact object that the API server fills with defaults. */
  filled: readonly string[];
  /** Fields without a default that must not exist unless we set them. */
  forbidden: ReadonlySet<string>;
  /** Whether any code reads its status. */
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

/** Kind of Secrets. Other parts of the operator watch Secrets already, and their cache is passed in. */
export const SECRET = kindOf('v1', 'Secret', 'secrets', { exact: true });
export const NAMESPACE = kindOf('v1', 'Namespace', 'namespaces');

/** Kinds that exist only where their CRDs are installed. */
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

/** Returns the function that reduces an object for the cache: hundreds of each kind are in memory. */
export function keepOf(kind: Kind): (object: KubeObject) => KubeObject {
  if (kind.kind === 'Pod') return keepOfPod;
  // The code of functions is in our ConfigMaps as well, and users may create any number of them.
  if (kind.kind === 'ConfigMap') return (object) => (isSettingsMap(object) ? object : metadataOnly(object));
  return (object) => {
    const { status, ...rest } = object as KubeObject & { status?: unknown };
    return { ...rest, ...(kind.status && status ? { status } : {}) } as KubeObject;
  };
}

/** The members of a pod that show why it does not run. */
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
