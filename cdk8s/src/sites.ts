/**
 * The settings of the installations that manifests/ holds, as a person would write them: each is checked as the
 * programs check it.
 */
import { PLANS, PROJECT_TYPES } from '@slipway/crds';

/** The site of `manifests/base`: all defaults, at a name that every machine resolves to itself. */
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

/** Accounts as on one machine: the users of these clusters are those who installed them. */
const accounts = { registration: 'open', plans: PLANS, types: PROJECT_TYPES, maxProjects: 1000 };

/** kind, with its ports 80 and 443 led to the ingress controller: all that one computer holds. */
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
  plans: smallPlans(() => 'deployments'),
};

/** The cluster of the tests: every placement and every kind of database. */
export const TEST_SITE = {
  publicUrl: 'http://slipway.test:18080',
  // Tests wait for a condition by asking all the time, many of them from one address.
  accounts: { ...accounts, requestsPerMinute: 100_000 },
  openedServices: ['storage', 'functions'],
  images: { auth: 'slipway/auth:dev', rest: 'slipway/rest:dev' },
  sharedDatabase: { ...database, memory: '1Gi', storage: '5Gi' },
  plans: smallPlans((plan) => (plan === 'free' ? 'pooled' : 'deployments')),
};
