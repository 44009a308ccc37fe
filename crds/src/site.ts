/**
 * A site's settings of its cluster: one object in the ConfigMap `slipway-site`, read by every program at start. In: its
 * YAML. Out: all settings with defaults, or an error that names each wrong field and its valid values.
 */
import Type from 'typebox';
import { Value } from 'typebox/value';
import { parse } from 'yaml';
import { PROJECT_SERVICES } from './availability.js';
import { PLACEMENTS } from './placement.js';
import { PLANS, type Plan, PROJECT_TYPES } from './project.js';
import { REGISTRATION_PATTERN } from './registration.js';
import { oneOf } from './schema.js';
import { DOMAIN_PATTERN, ORIGIN_PATTERN } from './web-addresses.js';

/** The variable that names the file; set: the program runs on a cluster. */
export const SITE_SETTING = 'SLIPWAY_SITE';

const closed = { additionalProperties: false };
const optional = Type.Optional;
const text = (description: string, options: Record<string, unknown> = {}) =>
  Type.String({ minLength: 1, maxLength: 2048, description, ...options });
/** A Kubernetes quantity in its canonical form, as the API server answers it: `250m`, `1`, `128Mi`, `10Gi`. */
const quantity = (standard: string, description: string) =>
  text(description, { default: standard, pattern: '^[1-9][0-9]*(m|Ki|Mi|Gi|Ti)?$' });

/**
 * Beyond it a pod's share of the connections that its login role may have, with one pod more in a rollout, is too few
 * to work with.
 */
export const MOST_PODS = 3;

const Pod = (cpu: string, memory: string, what: string) =>
  Type.Object(
    {
      replicas: Type.Integer({
        default: 1,
        minimum: 1,
        maximum: MOST_PODS,
        description: `Pods of ${what}; at most ${MOST_PODS}, as all share the connections of one login role.`,
      }),
      cpu: quantity(cpu, 'CPU that each is sure of.'),
      memory: quantity(memory, 'Memory that each is sure of, and may have.'),
    },
    { ...closed, default: {}, description: `The pods of ${what}.` },
  );

const Database = (cpu: string, memory: string, storage: string, what: string) =>
  Type.Object(
    {
      instances: Type.Integer({
        default: 1,
        minimum: 1,
        maximum: 9,
        description: 'Servers; more than one only under CloudNativePG.',
      }),
      cpu: quantity(cpu, 'CPU that each server is sure of.'),
      memory: quantity(memory, 'Memory of each server.'),
      storage: quantity(storage, 'The size of its volume.'),
    },
    { ...closed, default: {}, description: what },
  );

const PlanSizes = (ownDatabase: boolean) =>
  Type.Object(
    {
      placement: oneOf(PLACEMENTS, {
        default: 'deployments',
        description: 'deployments: pods of its own for auth and rest; pooled: the shared data plane serves it.',
      }),
      ownDatabase: Type.Boolean({ default: ownDatabase, description: 'A Postgres of its own, not one shared.' }),
      auth: Pod('25m', '128Mi', 'auth'),
      rest: Pod('25m', '128Mi', 'rest'),
      database: Database('250m', '512Mi', '10Gi', 'Its own Postgres, where it has one.'),
      quota: Type.Object(
        {
          cpu: quantity('4', 'CPU that all its pods may ask for.'),
          memory: quantity('8Gi', 'Memory that all its pods may have.'),
          storage: quantity('100Gi', 'The sum of its volumes.'),
          pods: Type.Integer({ default: 20, minimum: 1, description: 'How many pods.' }),
        },
        { ...closed, default: {}, description: 'What the namespace may use in all.' },
      ),
    },
    { ...closed, default: {}, description: 'What projects of the plan get.' },
  );

const OWN_DATABASE: Record<Plan, boolean> = { free: false, starter: false, pro: true, team: true, enterprise: true };

const Ingress = Type.Object(
  {
    kind: oneOf(['Ingress', 'HTTPRoute', 'none'], {
      default: 'Ingress',
      description: 'What leads to a project: an Ingress, a Gateway API route, or nothing (the site routes by itself).',
    }),
    className: optional(text('The IngressClass; without it the cluster’s default.')),
    gateway: optional(
      Type.Object(
        { name: text('The Gateway.'), namespace: text('Where it is.') },
        { ...closed, description: 'The Gateway of an HTTPRoute.' },
      ),
    ),
    annotations: Type.Record(Type.String(), Type.String(), { default: {}, description: 'On every Ingress or route.' }),
    tlsSecretName: optional(text('A wildcard certificate’s Secret in slipway-system, for all projects.')),
    clusterIssuer: optional(text('cert-manager’s ClusterIssuer, which makes a certificate for each project.')),
  },
  { ...closed, default: {}, description: 'How requests come in.' },
);

const Accounts = Type.Object(
  {
    registration: text(
      'Who may register an account: open, invite, closed, or mail domains separated by commas, such as @example.com.',
      { default: 'invite', pattern: REGISTRATION_PATTERN },
    ),
    plans: Type.Array(oneOf(PLANS), {
      default: ['free'],
      description: 'Plans that an account may use, unless an administrator chose others for it.',
    }),
    types: Type.Array(oneOf(PROJECT_TYPES), {
      default: ['shared'],
      description: 'Backend types that an account may use, unless an administrator chose others for it.',
    }),
    maxProjects: Type.Integer({
      default: 2,
      minimum: 0,
      maximum: 1000,
      description: 'Projects that an account may have, unless an administrator chose another number for it.',
    }),
    requestsPerMinute: Type.Integer({
      default: 1200,
      minimum: 0,
      maximum: 1_000_000,
      description:
        'Requests a minute of one account to each pod of the management API; a network has four times as many; 0: no limit.',
    }),
  },
  { ...closed, default: {}, description: 'Who may register, and what new accounts may use.' },
);

export const Site = Type.Object(
  {
    publicUrl: text('The management API’s address.', {
      pattern: '^https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$',
    }),
    projectsDomain: optional(
      text(
        'The domain below which projects are, as <ref>.<domain>, with a port if it is not that of publicUrl. Another ' +
          'registrable domain than that of publicUrl keeps cookies of projects away from the API. Without it: its host.',
        { pattern: DOMAIN_PATTERN },
      ),
    ),
    corsOrigins: Type.Array(text('An origin, such as https://console.example.com.', { pattern: ORIGIN_PATTERN }), {
      default: [],
      description: 'Origins whose pages may call the management API, beside its own.',
    }),
    databasePublicAddress: optional(
      text('host:port that db_url shows, where the shared Postgres is reached from outside.', {
        pattern: '^[^:/@]+:[0-9]{1,5}$',
      }),
    ),
    accounts: Accounts,
    openedServices: Type.Array(oneOf(PROJECT_SERVICES), {
      default: [],
      description: 'Services that shared projects have beyond the availability matrix.',
    }),
    images: Type.Object(
      {
        auth: text('GoTrue, or what honours its environment.', { default: 'supabase/gotrue:v2.197.0' }),
        rest: text('PostgREST, or what honours its environment.', { default: 'postgrest/postgrest:v14.3' }),
        postgres: text('Postgres.', { default: 'postgres:18' }),
        cloudNativePg: text('Postgres for CloudNativePG, where it is there: 18 or later.', {
          default: 'ghcr.io/cloudnative-pg/postgresql:18',
        }),
        pullPolicy: oneOf(['IfNotPresent', 'Always', 'Never'], {
          default: 'IfNotPresent',
          description: 'When to pull.',
        }),
        pullSecrets: Type.Array(text('A Secret of type dockerconfigjson in slipway-system, copied to each project.'), {
          default: [],
          description: 'For registries that ask for a login.',
        }),
      },
      { ...closed, default: {}, description: 'What projects run.' },
    ),
    ingress: Ingress,
    storageClass: optional(text('Of every volume; without it the cluster’s default.')),
    sharedDatabase: Database('250m', '1Gi', '50Gi', 'The Postgres that a region’s free and starter projects share.'),
    plans: Type.Object(
      Object.fromEntries(PLANS.map((plan) => [plan, PlanSizes(OWN_DATABASE[plan])])) as Record<
        Plan,
        ReturnType<typeof PlanSizes>
      >,
      { ...closed, default: {}, description: 'By plan.' },
    ),
    rollout: Type.Object(
      { batch: Type.Integer({ default: 5, minimum: 1, description: 'Projects that get a new image at a time.' }) },
      { ...closed, default: {}, description: 'How a new default image spreads.' },
    ),
    blockedAddresses: Type.Array(text('A CIDR.', { pattern: '^[0-9a-f.:]+/[0-9]{1,3}$' }), {
      default: [],
      description:
        'Beyond private ranges, what tenants’ pods, and auth for them, must not reach: nodes with public addresses.',
    }),
  },
  { ...closed, description: 'What a site chooses about its cluster.' },
);
export type Site = Type.Static<typeof Site>;

/** In: the YAML. Throws an error with a line for each wrong field. */
export function readSite(yaml: string): Site {
  let said: unknown;
  try {
    said = parse(yaml);
  } catch (error) {
    throw new Error(`the site settings are no YAML: ${(error as Error).message.split('\n')[0]}`);
  }
  const site = Value.Default(Site, said ?? {});
  const problems = Value.Errors(Site, site).map(
    ({ instancePath, message }) => `${instancePath.slice(1).replaceAll('/', '.') || 'the settings'} ${message}`,
  );
  if (problems.length > 0) throw new Error(`the site settings are wrong:\n${[...new Set(problems)].join('\n')}`);
  const read = site as Site;
  if (read.ingress.kind === 'HTTPRoute' && !read.ingress.gateway) {
    throw new Error('the site settings are wrong:\ningress.gateway must be set, as ingress.kind is HTTPRoute');
  }
  return read;
}
