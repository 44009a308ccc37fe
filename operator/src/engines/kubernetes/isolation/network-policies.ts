/**
 * Network policies of a project's pods. Pure. Only the connections in this file are allowed. In: the project, and the
 * addresses that a site blocks in addition to private ranges. Out: the policies.
 */
import {
  DATA_NAMESPACE,
  DEPLOYED_SERVICES,
  LABEL_CLUSTER,
  LABEL_PART,
  PART_AUTH,
  PART_POSTGRES,
  PART_REST,
  PROGRAMS,
  type Site,
  SYSTEM_NAMESPACE,
  sharedClusterOf,
} from '@slipway/installation';
import { NOT_PUBLIC } from '@slipway/program';
import type { EngineProject } from '../../../capabilities/index.js';
import type { DesiredObject } from '../children/children.js';
import { childOf } from '../objects.js';

const POSTGRES_PORT = 5432;
/** Port at which a Postgres instance reports its state to CloudNativePG. */
const CNPG_STATUS_PORT = 8000;
const PRIVATE = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'];

export interface Reach {
  /** True if the project's database is in a Postgres of its own, in its namespace. */
  ownDatabase: boolean;
  /** True if the project has pods for auth and rest. */
  deployed: boolean;
  /** True if CloudNativePG runs that Postgres. */
  operated: boolean;
}

export function networkPolicies(project: EngineProject, site: Site, reach: Reach): DesiredObject[] {
  const policies: Record<string, object> = {
    'default-deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
    ...(reach.deployed ? servicePolicies(project, site, reach) : {}),
    ...(reach.ownDatabase ? { 'postgres-from-services': postgresIngress() } : {}),
    ...(reach.ownDatabase && reach.operated ? { 'postgres-operated': operatedPostgres() } : {}),
  };
  return Object.entries(policies).map(([name, spec]) => policyOf(project, name, spec));
}

function servicePolicies(project: EngineProject, site: Site, { ownDatabase }: Reach): Record<string, object> {
  return {
    'auth-from-gateway': ingress(parts(PART_AUTH), [DEPLOYED_SERVICES.auth.port], programs('dataplane', 'operator')),
    'rest-from-gateway': ingress(
      parts(PART_REST),
      [DEPLOYED_SERVICES.rest.port, DEPLOYED_SERVICES.rest.adminPort],
      programs('dataplane', 'operator'),
    ),
    'services-to-names': nameServers(),
    'services-to-postgres': egress(
      parts(PART_AUTH, PART_REST),
      [POSTGRES_PORT],
      [ownDatabase ? { podSelector: parts(PART_POSTGRES) } : sharedPostgres(project)],
    ),
    'auth-to-internet': internet(site.blockedAddresses),
  };
}

const policyOf = (project: EngineProject, name: string, spec: object) =>
  childOf(project, {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    name,
    component: 'isolation',
    body: { spec },
  });

const parts = (...names: string[]) => ({
  matchExpressions: [{ key: LABEL_PART, operator: 'In', values: names }],
});

const namespaceNamed = (name: string) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } });

const programs = (...names: (keyof typeof PROGRAMS)[]) => [
  {
    namespaceSelector: namespaceNamed(SYSTEM_NAMESPACE),
    podSelector: {
      matchExpressions: [
        { key: 'app.kubernetes.io/name', operator: 'In', values: names.map((name) => PROGRAMS[name]) },
      ],
    },
  },
];

const tcp = (ports: readonly number[]) => ports.map((port) => ({ port, protocol: 'TCP' }));

const ingress = (podSelector: object, ports: readonly number[], from: readonly object[]) => ({
  podSelector,
  policyTypes: ['Ingress'],
  ingress: [{ from, ports: tcp(ports) }],
});

const egress = (podSelector: object, ports: readonly number[], to: readonly object[]) => ({
  podSelector,
  policyTypes: ['Egress'],
  egress: [{ to, ports: tcp(ports) }],
});

const nameServer = {
  namespaceSelector: namespaceNamed('kube-system'),
  podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
};
const dns = [
  { port: 53, protocol: 'UDP' },
  { port: 53, protocol: 'TCP' },
];

const nameServers = () => ({
  podSelector: parts(PART_AUTH, PART_REST),
  policyTypes: ['Egress'],
  egress: [{ to: [nameServer], ports: dns }],
});

const sharedPostgres = ({ region }: EngineProject) => ({
  namespaceSelector: namespaceNamed(DATA_NAMESPACE),
  podSelector: { matchLabels: { [LABEL_CLUSTER]: sharedClusterOf(region) } },
});

/**
 * The policy for mail, sign-in providers and hooks, which can be at any address. It has IPv4 ranges alone: on a cluster
 * without IPv6, a network plugin may fail at an IPv6 range and then enforce nothing.
 */
const internet = (blocked: readonly string[]) => ({
  podSelector: parts(PART_AUTH),
  policyTypes: ['Egress'],
  egress: [
    {
      to: [
        { ipBlock: { cidr: '0.0.0.0/0', except: [...NOT_PUBLIC, ...blocked.filter((range) => !range.includes(':'))] } },
      ],
    },
  ],
});

const postgresIngress = () => ({
  podSelector: parts(PART_POSTGRES),
  policyTypes: ['Ingress'],
  ingress: [
    {
      from: [
        { podSelector: parts(PART_AUTH, PART_REST) },
        ...programs('operator', 'api', 'dataplane', 'realtime', 'storage'),
      ],
      ports: tcp([POSTGRES_PORT]),
    },
  ],
});

/** The policy of CloudNativePG's pods: they connect to the API server, to one another, and to their operator. */
const operatedPostgres = () => ({
  podSelector: parts(PART_POSTGRES),
  policyTypes: ['Ingress', 'Egress'],
  ingress: [
    { from: [{ podSelector: parts(PART_POSTGRES) }], ports: tcp([POSTGRES_PORT, CNPG_STATUS_PORT]) },
    {
      from: [{ namespaceSelector: {}, podSelector: { matchLabels: { 'app.kubernetes.io/name': 'cloudnative-pg' } } }],
      ports: tcp([CNPG_STATUS_PORT]),
    },
  ],
  egress: [
    { to: [{ podSelector: parts(PART_POSTGRES) }], ports: tcp([POSTGRES_PORT, CNPG_STATUS_PORT]) },
    // The API server has no label, so the rule allows its ports in the private ranges where clusters are.
    { to: PRIVATE.map((cidr) => ({ ipBlock: { cidr } })), ports: tcp([443, 6443]) },
    { to: [nameServer], ports: dns },
  ],
});
