/**
 * The programs' rights at the Kubernetes API, and no more: each rule is used (e2e/src/roles.cluster.test.ts compares
 * them with the API server's audit log). Cluster-wide rules concern only the projects' namespaces, which come and go.
 */
import type { V1PolicyRule } from '@kubernetes/client-node';
import { GROUP, OPERATOR_LEASE, REPLICATION_SECRET, SECRETS, SYSTEM_NAMESPACE } from '@slipway/crds';
import type { Account } from './names.js';

export interface Rights {
  cluster: V1PolicyRule[];
  /** By namespace. */
  namespaced: Record<string, V1PolicyRule[]>;
}

const CORE = '';
const APPS = 'apps';
const NETWORKING = 'networking.k8s.io';
const COORDINATION = 'coordination.k8s.io';

const may = (group: string, resources: string[], verbs: string[], resourceNames?: string[]): V1PolicyRule => ({
  apiGroups: [group],
  resources,
  ...(resourceNames ? { resourceNames } : {}),
  verbs,
});

const READ = ['get', 'list', 'watch'];
/**
 * Followed by watch and applied server-side, which is a patch and may be a create. What is not deleted goes with its
 * namespace.
 */
const APPLY = ['list', 'watch', 'create', 'patch'];
const KEEP = [...APPLY, 'delete'];

const operator: Rights = {
  cluster: [
    may(GROUP, ['projects'], ['get', 'list', 'watch', 'patch']),
    may(GROUP, ['projects/status'], ['patch']),
    may(GROUP, ['edgefunctions'], ['get', 'list', 'watch', 'patch']),
    may(GROUP, ['edgefunctions/status'], ['patch']),
    may(CORE, ['namespaces'], [...READ, 'create', 'patch', 'delete']),
    // By label and in namespaces that come and go: neither can be said by resourceNames.
    may(CORE, ['secrets'], [...READ, 'create', 'patch', 'delete']),
    may(CORE, ['configmaps'], KEEP),
    // Whether one of that name is another's is asked before a Postgres is made.
    may(CORE, ['services'], ['get', ...KEEP]),
    may(CORE, ['resourcequotas', 'limitranges'], APPLY),
    may(CORE, ['pods', 'persistentvolumeclaims'], ['list', 'watch']),
    may(CORE, ['events'], ['list', 'create', 'patch']),
    may(APPS, ['deployments'], KEEP),
    may(APPS, ['statefulsets'], APPLY),
    may(NETWORKING, ['networkpolicies'], KEEP),
    may(NETWORKING, ['ingresses'], ['list', 'watch']),
  ],
  namespaced: {
    [SYSTEM_NAMESPACE]: [
      may(NETWORKING, ['ingresses'], ['create', 'patch', 'delete']),
      // Whether every gateway takes a key, while keys are rotated.
      may('discovery.k8s.io', ['endpointslices'], ['list']),
      may(COORDINATION, ['leases'], ['create']),
      may(COORDINATION, ['leases'], ['get', 'update'], [OPERATOR_LEASE]),
    ],
  },
};

/** The Secrets of projects that are shown over REST, that are written, and those whose setting may be taken back. */
const shown = [
  SECRETS.keys.name,
  SECRETS.database.name,
  SECRETS.env.name,
  SECRETS.notifications.name,
  SECRETS.jwt.name,
];
const removable = [SECRETS.env.name, SECRETS.git.name, SECRETS.notifications.name];

const api: Rights = {
  cluster: [
    may(GROUP, ['projects'], [...READ, 'create', 'patch', 'delete']),
    may(GROUP, ['edgefunctions'], ['get', 'list', 'create', 'patch', 'delete']),
    may(CORE, ['configmaps'], ['list']),
    // Listed for whom data of deleted projects is retained, before an account is deleted.
    may(CORE, ['namespaces'], ['create', 'list']),
    // The Git token is read where it is encrypted with a new key.
    may(CORE, ['secrets'], ['get'], [...shown, SECRETS.git.name]),
    may(CORE, ['secrets'], ['update', 'delete'], removable),
    may(CORE, ['secrets'], ['patch'], [SECRETS.keys.name]),
    // What is created has no name yet that a rule could name: charts/admission.ts says which.
    may(CORE, ['secrets'], ['create']),
  ],
  namespaced: {
    [SYSTEM_NAMESPACE]: [may(COORDINATION, ['leases'], ['get'], [OPERATOR_LEASE])],
  },
};

/**
 * A list or watch with a field selector for one name counts as of that name. The settings of auth are read wherever a
 * token is verified, as the project's public keys for it are among them (dataplane/src/signing-keys.ts).
 */
const watched = [SECRETS.keys.name, SECRETS.database.name, SECRETS.auth.name];
const tenants = [may(GROUP, ['projects'], ['list', 'watch']), may(CORE, ['secrets'], ['list', 'watch'], watched)];

const dataplane: Rights = { cluster: tenants, namespaced: {} };

/** Realtime's rights. A holder of the replication password can read every tenant's changes. */
const realtime: Rights = {
  cluster: tenants,
  namespaced: { [SYSTEM_NAMESPACE]: [may(CORE, ['secrets'], ['get'], [REPLICATION_SECRET.name])] },
};

const storage: Rights = { cluster: tenants, namespaced: {} };

/** Rights of the pods of functions: they alone read the variables that owners set. */
const functions: Rights = {
  cluster: [
    may(GROUP, ['projects'], ['list', 'watch']),
    may(CORE, ['secrets'], ['list', 'watch'], [...watched, SECRETS.env.name]),
  ],
  namespaced: {},
};

export const RIGHTS: Record<Account, Rights> = { operator, api, dataplane, realtime, storage, functions };

/** Rights that only sites with this operator or API need: a component for each. */
export const OPTIONAL_RIGHTS: Record<string, Rights> = {
  'cloudnative-pg': { cluster: [may('postgresql.cnpg.io', ['clusters'], APPLY)], namespaced: {} },
  'gateway-api': {
    cluster: [may('gateway.networking.k8s.io', ['httproutes'], ['list', 'watch'])],
    namespaced: {
      [SYSTEM_NAMESPACE]: [may('gateway.networking.k8s.io', ['httproutes'], ['create', 'patch', 'delete'])],
    },
  },
};
