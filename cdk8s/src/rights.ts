/**
 * The programs' rights at the Kubernetes API, and no others: each rule is used (e2e/src/roles.cluster.test.ts compares
 * the rules with the API server's audit log). Cluster-wide rules concern only projects' namespaces, which are created
 * at run time.
 */

import { GROUP } from '@slipway/crds';
import { BUILDS_NAMESPACE, OPERATOR_LEASE, REPLICATION_SECRET, SECRETS, SYSTEM_NAMESPACE } from '@slipway/installation';
import type { V1PolicyRule } from '@slipway/kubernetes/models.js';
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
 * Objects that the operator watches and applies server-side, which is a patch and may be a create. Those that it does
 * not delete are deleted with their namespace.
 */
const APPLY = ['list', 'watch', 'create', 'patch'];
const KEEP = [...APPLY, 'delete'];

const operator: Rights = {
  cluster: [
    may(GROUP, ['projects'], ['get', 'list', 'watch', 'patch']),
    may(GROUP, ['projects/status'], ['patch']),
    may(GROUP, ['edgefunctions'], ['get', 'list', 'watch', 'patch']),
    may(GROUP, ['edgefunctions/status'], ['patch']),
    may(GROUP, ['builds'], ['list', 'watch', 'delete']),
    may(GROUP, ['builds/status'], ['patch']),
    may(CORE, ['namespaces'], [...READ, 'create', 'patch', 'delete']),
    // By label, and in namespaces that are created at run time: resourceNames can express neither.
    may(CORE, ['secrets'], [...READ, 'create', 'patch', 'delete']),
    may(CORE, ['configmaps'], KEEP),
    // Read before a Postgres is created, to see whether the name belongs to another Service.
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
      // Reads whether every gateway accepts a new key during a rotation.
      may('discovery.k8s.io', ['endpointslices'], ['list']),
      may(COORDINATION, ['leases'], ['create']),
      may(COORDINATION, ['leases'], ['get', 'update'], [OPERATOR_LEASE]),
    ],
  },
};

/** The Secrets of projects that REST shows, that it writes, and whose setting it removes. */
const shown = [
  SECRETS.keys.name,
  SECRETS.database.name,
  SECRETS.env.name,
  SECRETS.notifications.name,
  SECRETS.jwt.name,
  SECRETS.auth.name,
];
const removable = [SECRETS.env.name, SECRETS.git.name, SECRETS.notifications.name];

const api: Rights = {
  cluster: [
    may(GROUP, ['projects'], [...READ, 'create', 'patch', 'delete']),
    may(GROUP, ['edgefunctions'], [...READ, 'create', 'patch', 'delete']),
    may(GROUP, ['builds'], ['get', 'list', 'watch', 'create', 'patch']),
    // The ticket of a build is deleted once its credentials were read.
    may(GROUP, ['builds/status'], ['patch']),
    may(CORE, ['configmaps'], ['list']),
    // Logs of projects for their owners: of auth's pods in namespaces that are created at run time, and of Postgres.
    may(CORE, ['pods'], ['list']),
    may(CORE, ['pods/log'], ['get']),
    // Events: a Project was given to another account, or no account owns it.
    may(CORE, ['events'], ['create']),
    // Listed before an account is deleted, to find the retained data of its deleted projects.
    may(CORE, ['namespaces'], ['create', 'list']),
    // Git credentials are read when one of two is written, and when they are encrypted with a new key.
    may(CORE, ['secrets'], ['get'], [...shown, SECRETS.git.name]),
    may(CORE, ['secrets'], ['update', 'delete'], removable),
    may(CORE, ['secrets'], ['patch'], [SECRETS.keys.name, SECRETS.auth.name]),
    // A rule can't name an object that does not exist yet: charts/admission.ts limits the names.
    may(CORE, ['secrets'], ['create']),
  ],
  namespaced: {
    [SYSTEM_NAMESPACE]: [may(COORDINATION, ['leases'], ['get'], [OPERATOR_LEASE])],
  },
};

/**
 * A list or watch with a field selector for one name counts as a request for that name. The auth settings are read
 * wherever a token is verified, as they contain the project's public keys (dataplane/src/identity/signing-keys.ts).
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

/** Rights of the pods of sites: what they serve needs no Secret. */
const hosting: Rights = { cluster: [may(GROUP, ['projects'], ['list', 'watch'])], namespaced: {} };

/** The egress proxy of builds does not use the API server. */
const egress: Rights = { cluster: [], namespaced: {} };

/** Rights of the pods of functions: they alone read the variables that owners set. */
const functions: Rights = {
  cluster: [
    may(GROUP, ['projects'], ['list', 'watch']),
    may(CORE, ['secrets'], ['list', 'watch'], [...watched, SECRETS.env.name]),
  ],
  namespaced: {},
};

export const RIGHTS: Record<Account, Rights> = {
  operator,
  api,
  dataplane,
  realtime,
  storage,
  functions,
  hosting,
  egress,
};

/** Rights that only sites with this operator or API need: a component for each. */
export const OPTIONAL_RIGHTS: Record<string, Rights> = {
  'cloudnative-pg': { cluster: [may('postgresql.cnpg.io', ['clusters'], APPLY)], namespaced: {} },
  hosting: {
    // Reads whether the nodes' runtimes support user namespaces.
    cluster: [may(CORE, ['nodes'], ['list'])],
    namespaced: {
      [BUILDS_NAMESPACE]: [may('batch', ['jobs'], [...READ, 'create', 'delete']), may(CORE, ['pods/log'], ['get'])],
    },
  },
  'gateway-api': {
    cluster: [may('gateway.networking.k8s.io', ['httproutes'], ['list', 'watch'])],
    namespaced: {
      [SYSTEM_NAMESPACE]: [may('gateway.networking.k8s.io', ['httproutes'], ['create', 'patch', 'delete'])],
    },
  },
};
