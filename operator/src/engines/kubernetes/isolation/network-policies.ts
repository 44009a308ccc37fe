/**
 * Network policies of a project's pods: pure. Only the connections named here are allowed. In: the project, and the
 * addresses that a site blocks beyond private ranges.
 */
import {
  DATA_NAMESPACE,
  DEPLOYED_SERVICES,
  LABEL_CLUSTER,
  LABEL_PART,
  NOT_PUBLIC,
  PART_AUTH,
  PART_POSTGRES,
  PART_REST,
  PROGRAMS,
  type Site,
  SYSTEM_NAMESPACE,
  sharedClusterOf,
} from '@slipway/crds';
import type { EngineProject } from '../../engine.js';
import type { DesiredObject } from '../children/children.js';
import { childOf } from '../objects.js';

const POSTGRES_PORT = 5432;
/** Where an instance tells CloudNativePG how it is. */
const CNPG_STATUS_PORT = 8000;
const PRIVATE = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'];

export interface Reach {
  /** Its database is in a Postgres of its own, in its namespace. */
  ownDatabase: boolean;
  /** It has pods for auth and rest. */
  deployed: boolean;
  /** That Postgres is run by CloudNativePG. */
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
 * Mail, sign-in providers and hooks are anywhere. By IPv4 alone: what enforces policies on a cluster without IPv6 may
 * fail at a range of it, and then holds nobody back.
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

/** CloudNativePG's pods speak with the API server, with one another, and with their operator. */
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
    // The API server has no label: its ports, in the ranges where clusters are.
    { to: PRIVATE.map((cidr) => ({ ipBlock: { cidr } })), ports: tcp([443, 6443]) },
    { to: [nameServer], ports: dns },
  ],
});
