/**
 * The settings of the installations in manifests/, as an administrator would write them. Each is checked as the
 * programs check it.
 */
import { PLANS, PROJECT_TYPES } from '@slipway/crds';
import { BUILDER_IMAGE } from './names.js';

/** The site of `manifests/base`: all defaults, with a host name that every machine resolves to itself. */
export const BASE_SITE = `# What this site chooses: docs/cluster.md has every setting. Programs check it at their start.
publicUrl: http://slipway.localhost
`;

const small = { cpu: '25m', memory: '128Mi' };
const service = { replicas: 1, ...small };
const database = { instances: 1, cpu: '50m', memory: '256Mi', storage: '1Gi' };
const smallPlans = (placementOf: (plan: string) => string) =>
  Object.fromEntries(
    PLANS.map((plan) => [
      plan,
      {
        placement: placementOf(plan),
        auth: service,
        rest: service,
        database,
        quota: { cpu: '1', memory: '2Gi', storage: '10Gi', pods: 10 },
      },
    ]),
  );

/** Accounts as on one machine: the users of these clusters are the people who installed them. */
const accounts = { registration: 'open', plans: PLANS, types: PROJECT_TYPES, maxProjects: 1000 };

/** kind with its ports 80 and 443 mapped to the ingress controller, for a cluster on one computer. */
export const KIND_SITE = {
  publicUrl: 'http://slipway.localhost',
  accounts,
  openedServices: ['storage', 'functions'],
  ingress: {
    className: 'nginx',
    annotations: {
      'nginx.ingress.kubernetes.io/proxy-body-size': '0',
      'nginx.ingress.kubernetes.io/proxy-request-buffering': 'off',
    },
  },
  sharedDatabase: database,
  builds: { image: `${BUILDER_IMAGE}:dev` },
  plans: smallPlans(() => 'deployments'),
};

/** The address at which pods of the test cluster reach its node. */
const TEST_NODE = '10.244.0.1';

/** The test cluster: every placement and every kind of database. */
export const TEST_SITE = {
  publicUrl: 'http://slipway.test:18080',
  projectsDomain: 'projects.slipway.test',
  // Tests poll for conditions, many of them from one address.
  accounts: { ...accounts, requestsPerMinute: 100_000 },
  openedServices: ['storage', 'functions'],
  images: { auth: 'slipway/auth:dev', rest: 'slipway/rest:dev' },
  builds: {
    image: `${BUILDER_IMAGE}:dev`,
    kaniko: 'slipway/kaniko-stand-in:dev',
    kanikoArguments: [`--insecure-registry=${TEST_NODE}:5000`],
    nodeImage: `${TEST_NODE}:5000/node`,
    atOnce: 2,
    cpu: '50m',
    memory: '64Mi',
  },
  outbound: { allowedNetworks: [`${TEST_NODE}/32`] },
  sharedDatabase: { ...database, memory: '1Gi', storage: '5Gi' },
  plans: smallPlans((plan) => (plan === 'free' ? 'pooled' : 'deployments')),
};
