/** Typed Kubernetes objects as cdk8s constructs. In: the API's own types. Called by the charts. */
import type {
  V1ClusterRole,
  V1ClusterRoleBinding,
  V1Deployment,
  V1Namespace,
  V1PodDisruptionBudget,
  V1ResourceQuota,
  V1Role,
  V1RoleBinding,
  V1Service,
  V1ServiceAccount,
  V1StatefulSet,
  V1ValidatingAdmissionPolicy,
  V1ValidatingAdmissionPolicyBinding,
} from '@slipway/kubernetes/models.js';
import { ApiObject, type Chart } from 'cdk8s';

/** client-node renames the field `from`, so policies have types of their own. */
export interface NetworkPolicy {
  spec: {
    podSelector: { matchLabels?: Record<string, string> };
    policyTypes: ('Ingress' | 'Egress')[];
    ingress?: { from?: Peer[]; ports?: Port[] }[];
    egress?: { to?: Peer[]; ports?: Port[] }[];
  };
}
export interface Peer {
  podSelector?: Selector;
  namespaceSelector?: Selector;
  ipBlock?: { cidr: string; except?: string[] };
}
interface Selector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: 'In' | 'Exists' | 'DoesNotExist'; values?: string[] }[];
}
export interface Port {
  protocol: 'TCP' | 'UDP';
  port: number;
}

interface Kinds {
  Namespace: ['v1', V1Namespace];
  ServiceAccount: ['v1', V1ServiceAccount];
  Service: ['v1', V1Service];
  Deployment: ['apps/v1', V1Deployment];
  StatefulSet: ['apps/v1', V1StatefulSet];
  PodDisruptionBudget: ['policy/v1', V1PodDisruptionBudget];
  ResourceQuota: ['v1', V1ResourceQuota];
  ClusterRole: ['rbac.authorization.k8s.io/v1', V1ClusterRole];
  ClusterRoleBinding: ['rbac.authorization.k8s.io/v1', V1ClusterRoleBinding];
  Role: ['rbac.authorization.k8s.io/v1', V1Role];
  RoleBinding: ['rbac.authorization.k8s.io/v1', V1RoleBinding];
  NetworkPolicy: ['networking.k8s.io/v1', NetworkPolicy];
  ValidatingAdmissionPolicy: ['admissionregistration.k8s.io/v1', V1ValidatingAdmissionPolicy];
  ValidatingAdmissionPolicyBinding: ['admissionregistration.k8s.io/v1', V1ValidatingAdmissionPolicyBinding];
}

const API_VERSIONS: { [Kind in keyof Kinds]: Kinds[Kind][0] } = {
  Namespace: 'v1',
  ServiceAccount: 'v1',
  Service: 'v1',
  Deployment: 'apps/v1',
  StatefulSet: 'apps/v1',
  PodDisruptionBudget: 'policy/v1',
  ResourceQuota: 'v1',
  ClusterRole: 'rbac.authorization.k8s.io/v1',
  ClusterRoleBinding: 'rbac.authorization.k8s.io/v1',
  Role: 'rbac.authorization.k8s.io/v1',
  RoleBinding: 'rbac.authorization.k8s.io/v1',
  NetworkPolicy: 'networking.k8s.io/v1',
  ValidatingAdmissionPolicy: 'admissionregistration.k8s.io/v1',
  ValidatingAdmissionPolicyBinding: 'admissionregistration.k8s.io/v1',
};

interface Metadata {
  name: string;
  namespace?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
}

/** Adds an object to a chart, with a generated name. */
export function add<Kind extends keyof Kinds>(
  chart: Chart,
  kind: Kind,
  object: Omit<Kinds[Kind][1], 'apiVersion' | 'kind' | 'metadata' | 'status'> & { metadata: Metadata },
): void {
  const { metadata, ...rest } = object;
  new ApiObject(chart, `${kind}.${metadata.namespace ?? ''}.${metadata.name}`, {
    apiVersion: API_VERSIONS[kind],
    kind,
    metadata,
    ...rest,
  });
}
