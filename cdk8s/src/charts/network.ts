/**
 * Network policies of the platform: all traffic that is not named here is denied. The API server's address differs from
 * cluster to cluster, so it is allowed by its port. Policies do not apply to processes on the nodes' network, such as
 * the kubelet's probes.
 */

import {
  BUILDS_NAMESPACE,
  DATA_NAMESPACE,
  DEPLOYED_SERVICES,
  FORMS_PORT,
  FORMS_SERVICE,
  FUNCTIONS_CONTROL_PORT,
  HOSTING_STORE_PORT,
  LABEL_PART,
  LABEL_PROJECT,
  LOGS_PORT,
  PART_AUTH,
  PART_POSTGRES,
  PART_REST,
  PROGRAMS,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import { NOT_PUBLIC } from '@slipway/program';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import {
  ACCOUNTS,
  type Account,
  type AddedAccount,
  LABEL_INGRESS,
  LABEL_MONITORING,
  METRICS_PORT,
  NAME_LABEL,
  PORT,
  selectorOf,
} from '../names.js';
import { add, type NetworkPolicy, type Peer, type Port } from '../objects.js';

type Ingress = NonNullable<NetworkPolicy['spec']['ingress']>;
type Egress = NonNullable<NetworkPolicy['spec']['egress']>;

const tcp = (...ports: number[]): Port[] => ports.map((port) => ({ protocol: 'TCP', port }));
const POSTGRES = tcp(5432);

type Program = keyof typeof PROGRAMS;

const inNamespace = (name: string) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } });
const program = (name: Program): Peer => ({ podSelector: { matchLabels: selectorOf(PROGRAMS[name]) } });
const systemPrograms = (...names: Program[]): Peer => ({
  namespaceSelector: inNamespace(SYSTEM_NAMESPACE),
  podSelector: { matchExpressions: [{ key: NAME_LABEL, operator: 'In', values: names.map((name) => PROGRAMS[name]) }] },
});
const ofProjects = (...parts: string[]): Peer => ({
  namespaceSelector: { matchExpressions: [{ key: LABEL_PROJECT, operator: 'Exists' }] },
  podSelector: { matchExpressions: [{ key: LABEL_PART, operator: 'In', values: parts }] },
});

const TENANT_POSTGRES: Egress[number] = {
  to: [{ namespaceSelector: inNamespace(DATA_NAMESPACE) }, ofProjects(PART_POSTGRES)],
  ports: POSTGRES,
};
const PLATFORM_DATABASE: Egress[number] = {
  to: [{ podSelector: { matchLabels: selectorOf(PROGRAMS.postgres) } }],
  ports: POSTGRES,
};
/** Port of the Service, and of the server itself. */
const API_SERVER: Egress[number] = { ports: tcp(443, 6443) };
/**
 * Pods that run tenants' code. Deno rejects private ranges of IPv4 alone, so the policy allows no other IPv6 addresses.
 */
const API_SERVER_BY_IPV4: Egress[number] = { to: [{ ipBlock: { cidr: '0.0.0.0/0' } }], ports: tcp(443, 6443) };
const DNS: Egress[number] = {
  to: [{ namespaceSelector: inNamespace('kube-system'), podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } } }],
  ports: [{ protocol: 'UDP', port: 53 }, ...tcp(53)],
};
const DATAPLANE: Egress[number] = { to: [program('dataplane')], ports: tcp(PORT) };
/** Pods to which the gateways forward requests. */
const SERVICE_PODS: Egress[number] = {
  to: [program('realtime'), program('storage'), program('functions'), program('hosting')],
  ports: tcp(PORT),
};
const FUNCTIONS_CONTROL: Egress[number] = { to: [program('functions')], ports: tcp(FUNCTIONS_CONTROL_PORT) };
const GATEWAY_LOGS: Egress[number] = { to: [program('dataplane')], ports: tcp(LOGS_PORT) };
const API: Egress[number] = { to: [program('api')], ports: tcp(PORT) };
const HOSTING_STORE: Egress[number] = { to: [program('hosting')], ports: tcp(HOSTING_STORE_PORT) };
const FORMS: Egress[number] = { to: [program('api')], ports: tcp(FORMS_PORT) };
const PROJECT_SERVICES: Egress[number] = {
  to: [ofProjects(PART_AUTH, PART_REST)],
  ports: tcp(DEPLOYED_SERVICES.auth.port, DEPLOYED_SERVICES.rest.port, DEPLOYED_SERVICES.rest.adminPort),
};
/**
 * Mail servers, identity providers and hooks of projects without pods of their own: by IPv4, as in the policies of the
 * projects.
 */
const INTERNET: Egress[number] = { to: [{ ipBlock: { cidr: '0.0.0.0/0', except: [...NOT_PUBLIC] } }] };
/** The pods of the ingress controller, by the label that the site sets. */
const INGRESS_CONTROLLER: Peer = { namespaceSelector: { matchLabels: { [LABEL_INGRESS]: 'true' } } };
const MONITORING: Peer = { namespaceSelector: { matchLabels: { [LABEL_MONITORING]: 'true' } } };

interface Allowance {
  ingress?: Ingress;
  egress?: Egress;
}

const ALLOWED: Record<Account, Required<Allowance>> = {
  operator: {
    ingress: [{ from: [MONITORING], ports: tcp(PORT) }],
    egress: [
      API_SERVER,
      DNS,
      PLATFORM_DATABASE,
      TENANT_POSTGRES,
      DATAPLANE,
      PROJECT_SERVICES,
      FUNCTIONS_CONTROL,
      HOSTING_STORE,
    ],
  },
  api: {
    ingress: [
      { from: [INGRESS_CONTROLLER, program('egress')], ports: tcp(PORT) },
      { from: [MONITORING], ports: tcp(METRICS_PORT) },
    ],
    egress: [
      API_SERVER,
      DNS,
      PLATFORM_DATABASE,
      TENANT_POSTGRES,
      DATAPLANE,
      GATEWAY_LOGS,
      FUNCTIONS_CONTROL,
      HOSTING_STORE,
    ],
  },
  dataplane: {
    ingress: [
      { from: [INGRESS_CONTROLLER, program('operator'), program('api'), program('functions')], ports: tcp(PORT) },
      { from: [program('api')], ports: tcp(LOGS_PORT) },
      { from: [MONITORING], ports: tcp(METRICS_PORT) },
    ],
    egress: [API_SERVER, DNS, TENANT_POSTGRES, PROJECT_SERVICES, SERVICE_PODS, INTERNET],
  },
  realtime: {
    ingress: [
      { from: [program('dataplane')], ports: tcp(PORT) },
      { from: [MONITORING], ports: tcp(METRICS_PORT) },
    ],
    egress: [API_SERVER, DNS, TENANT_POSTGRES],
  },
  storage: {
    ingress: [
      { from: [program('dataplane')], ports: tcp(PORT) },
      { from: [MONITORING], ports: tcp(METRICS_PORT) },
    ],
    egress: [API_SERVER, DNS, TENANT_POSTGRES],
  },
  functions: {
    ingress: [
      { from: [program('dataplane')], ports: tcp(PORT) },
      { from: [program('operator'), program('api')], ports: tcp(FUNCTIONS_CONTROL_PORT) },
      { from: [MONITORING], ports: tcp(METRICS_PORT) },
    ],
    egress: [API_SERVER_BY_IPV4, DNS, DATAPLANE, INTERNET],
  },
  hosting: {
    ingress: [
      { from: [program('dataplane')], ports: tcp(PORT) },
      { from: [program('operator'), program('api'), program('egress')], ports: tcp(HOSTING_STORE_PORT) },
      { from: [MONITORING], ports: tcp(METRICS_PORT) },
    ],
    egress: [API_SERVER, DNS, FORMS],
  },
  egress: {
    ingress: [{ from: [{ namespaceSelector: inNamespace(BUILDS_NAMESPACE) }], ports: tcp(PORT) }],
    egress: [DNS, API, HOSTING_STORE, INTERNET],
  },
};

export class Network extends Chart {
  constructor(scope: Construct) {
    super(scope, 'network');
    for (const namespace of [SYSTEM_NAMESPACE, DATA_NAMESPACE]) {
      policy(this, namespace, 'default-deny', {}, { ingress: [], egress: [] });
    }
    for (const account of ACCOUNTS) policyOf(this, account);
    // Only builds run in that namespace.
    policy(
      this,
      DATA_NAMESPACE,
      'postgres',
      {},
      {
        ingress: [
          {
            from: [
              systemPrograms('operator', 'api', 'dataplane', 'realtime', 'storage'),
              ofProjects(PART_AUTH, PART_REST),
            ],
            ports: POSTGRES,
          },
        ],
      },
    );
  }
}

/** Policies of programs that a site adds. `outwards`: allows S3 at any address on the internet. */
export class AddedNetwork extends Chart {
  constructor(scope: Construct, account: AddedAccount, { outwards = false } = {}) {
    super(scope, 'network');
    policyOf(this, account, outwards ? [INTERNET] : []);
  }
}

/** Pods of builds reach the egress proxy alone, and no name server. */
export class BuildsNetwork extends Chart {
  constructor(scope: Construct) {
    super(scope, 'builds-network');
    policy(this, BUILDS_NAMESPACE, 'default-deny', {}, { ingress: [], egress: [] });
    const proxy = { namespaceSelector: inNamespace(SYSTEM_NAMESPACE), ...program('egress') };
    policy(this, BUILDS_NAMESPACE, 'build-egress', {}, { egress: [{ to: [proxy], ports: tcp(PORT) }] });
    policyOf(this, 'egress');
  }
}

/** A chart of its own, as a site with its own Postgres omits it. */
export class PlatformPostgresNetwork extends Chart {
  constructor(scope: Construct) {
    super(scope, 'platform-postgres-network');
    policy(this, SYSTEM_NAMESPACE, PROGRAMS.postgres, selectorOf(PROGRAMS.postgres), {
      ingress: [{ from: [program('operator'), program('api')], ports: POSTGRES }],
    });
  }
}

/** Mail servers of the API: any address, as a site's own server may have a private one. */
export class MailNetwork extends Chart {
  constructor(scope: Construct) {
    super(scope, 'network');
    const api = PROGRAMS.api;
    policy(this, SYSTEM_NAMESPACE, `${api}-mail`, selectorOf(api), { egress: [{ ports: tcp(25, 465, 587, 2525) }] });
  }
}

/** The API's port for entries of forms, which only the pods of sites may reach. */
export class FormsNetwork extends Chart {
  constructor(scope: Construct) {
    super(scope, 'forms-network');
    const ingress = [{ from: [program('hosting')], ports: tcp(FORMS_PORT) }];
    policy(this, SYSTEM_NAMESPACE, FORMS_SERVICE, selectorOf(PROGRAMS.api), { ingress });
  }
}

/**
 * CloudNativePG requests the status of its servers, and these read from the API server which of them is the primary.
 */
export class CloudNativePgNetwork extends Chart {
  constructor(scope: Construct) {
    super(scope, 'network');
    const peers: Peer = { podSelector: {} };
    policy(
      this,
      DATA_NAMESPACE,
      'cloudnative-pg',
      {},
      {
        ingress: [
          { from: [peers, { namespaceSelector: inNamespace('cnpg-system') }], ports: tcp(5432, 8000) },
          { from: [MONITORING], ports: tcp(9187) },
        ],
        egress: [API_SERVER, DNS, { to: [peers], ports: tcp(5432, 8000) }],
      },
    );
  }
}

function policyOf(chart: Chart, account: Account, more: Egress = []): void {
  const name = PROGRAMS[account];
  const { ingress, egress } = ALLOWED[account];
  policy(chart, SYSTEM_NAMESPACE, name, selectorOf(name), { ingress, egress: [...egress, ...more] });
}

function policy(
  chart: Chart,
  namespace: string,
  name: string,
  matchLabels: Record<string, string>,
  { ingress, egress }: Allowance,
): void {
  const hasLabels = Object.keys(matchLabels).length > 0;
  add(chart, 'NetworkPolicy', {
    metadata: { name, namespace, labels: { 'app.kubernetes.io/part-of': 'slipway' } },
    spec: {
      podSelector: hasLabels ? { matchLabels } : {},
      policyTypes: [...(ingress ? (['Ingress'] as const) : []), ...(egress ? (['Egress'] as const) : [])],
      ...(ingress?.length ? { ingress } : {}),
      ...(egress?.length ? { egress } : {}),
    },
  });
}
