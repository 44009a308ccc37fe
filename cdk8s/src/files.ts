/**
 * Returns every file of manifests/ without the CRDs, as a map from path to text: a kustomize base, components, and
 * overlays. In: the charts and the sites. Called by `generate.ts`, which writes the files, and by the test that
 * compares them.
 */

import { PROGRAMS, SITE_CONFIG, SYSTEM_NAMESPACE } from '@slipway/installation';
import type { V1ContainerPort, V1EnvVar, V1Volume, V1VolumeMount } from '@slipway/kubernetes/models.js';
import { App, type Chart, Testing } from 'cdk8s';
import { stringify } from 'yaml';
import { Admission } from './charts/admission.js';
import { BuildsNamespace } from './charts/builds-namespace.js';
import { Namespaces } from './charts/namespaces.js';
import {
  AddedNetwork,
  BuildsNetwork,
  CloudNativePgNetwork,
  FormsNetwork,
  MailNetwork,
  Network,
  PlatformPostgresNetwork,
} from './charts/network.js';
import { PlatformPostgres } from './charts/platform-postgres.js';
import {
  AddedPrograms,
  BuildEgress,
  FormsService,
  formsPort,
  functionsToken,
  hostingToken,
  Programs,
  podUrls,
  smtp,
} from './charts/programs.js';
import { OptionalRights, ProgramRights } from './charts/rights.js';
import { ServiceAccounts } from './charts/service-accounts.js';
import { UserRoles } from './charts/user-roles.js';
import { IMAGES, imageOf } from './names.js';
import { BASE_SITE, KIND_SITE, TEST_SITE } from './sites.js';

export type Files = Map<string, string>;

/** Folders with generated files alone. */
export const GENERATED = ['base', 'components', 'overlays'];

const HEADER = '# Generated from cdk8s/src by `npm run generate`. Do not edit.\n';
const yaml = (value: object) => stringify(value, { lineWidth: 120, aliasDuplicateObjects: false });
const kustomization = (kind: 'Kustomization' | 'Component', body: object) =>
  HEADER +
  yaml({
    apiVersion: kind === 'Component' ? 'kustomize.config.k8s.io/v1alpha1' : 'kustomize.config.k8s.io/v1beta1',
    kind,
    ...body,
  });
const stream = (objects: object[]) => HEADER + objects.map(yaml).join('---\n');

export function manifestFiles(): Files {
  return new Map([
    ...base(),
    ...externalPostgres(),
    ...component('cloudnative-pg', (app) => [new OptionalRights(app, 'cloudnative-pg'), new CloudNativePgNetwork(app)]),
    ...component('gateway-api', (app) => [new OptionalRights(app, 'gateway-api')]),
    ...storage('storage', { replicas: 1, volume: '50Gi' }),
    ...storage('storage-s3', { replicas: 2 }),
    ...functions(),
    ...hosting(),
    ...component('mail', (app) => [new MailNetwork(app)], [withSettings('api', smtp.env, smtp)]),
    ...overlay('kind', KIND_SITE),
    ...overlay('test', TEST_SITE),
  ]);
}

const written = (charts: readonly Chart[]) =>
  charts.map((chart) => [`${chart.node.id}.yaml`, stream(Testing.synth(chart))] as const);

function base(): Files {
  const app = new App();
  const files = written([
    new Namespaces(app),
    new ServiceAccounts(app),
    new ProgramRights(app),
    new Admission(app),
    new UserRoles(app),
    new Network(app),
    new PlatformPostgres(app),
    new PlatformPostgresNetwork(app),
    new Programs(app),
  ]);
  const listed = kustomization('Kustomization', {
    resources: ['../crds', ...files.map(([file]) => file)],
    configMapGenerator: [siteGenerator()],
  });
  const all = [...files, ['kustomization.yaml', listed] as const, [SITE_CONFIG.key, BASE_SITE] as const];
  return new Map(all.map(([file, text]) => [`base/${file}`, text]));
}

/** Components that a site adds, for features that not every cluster has or needs. */
function component(name: string, chartsOf: (app: App) => Chart[], patches: Patch[] = []): Files {
  const files = written(chartsOf(new App()));
  const resources = files.map(([file]) => file);
  const listed = kustomization('Component', { resources, ...(patches.length > 0 ? { patches } : {}) });
  return new Map(
    [...files, ['kustomization.yaml', listed] as const].map(([file, text]) => [`components/${name}/${file}`, text]),
  );
}

/** Named with a hash, so that changed settings restart the programs. */
const siteGenerator = (behavior?: 'replace') => ({
  name: SITE_CONFIG.name,
  namespace: SYSTEM_NAMESPACE,
  ...(behavior ? { behavior } : {}),
  files: [SITE_CONFIG.key],
});

type OverlaySite = typeof KIND_SITE | typeof TEST_SITE;

function overlay(name: 'kind' | 'test', settings: OverlaySite): Files {
  const text = yaml(settings);
  const listed = kustomization('Kustomization', {
    resources: ['../../base'],
    components: ['storage', 'functions', 'hosting'].map((name) => `../../components/${name}`),
    configMapGenerator: [siteGenerator('replace')],
    images: IMAGES.map((image) => ({ name: imageOf(image), newTag: 'dev' })),
    patches: [...SMALL, name === 'kind' ? INGRESS_NGINX : TEST_NETWORK],
  });
  return new Map([
    [`overlays/${name}/kustomization.yaml`, listed],
    [`overlays/${name}/${SITE_CONFIG.key}`, HEADER + text],
  ]);
}

interface Patch {
  target: { kind: string; name: string };
  patch: string;
}

/** Storage, with files on a volume or in S3. */
const storage = (name: string, pods: { replicas: number; volume?: string }) =>
  component(
    name,
    (app) => [
      new ServiceAccounts(app, ['storage']),
      new ProgramRights(app, ['storage']),
      new AddedNetwork(app, 'storage', { outwards: pods.volume === undefined }),
      new AddedPrograms(app, 'storage', pods),
    ],
    [withSettings('dataplane', [podUrls('storage', pods.replicas)])],
  );

const FUNCTIONS_PODS = 1;
const functions = () =>
  component(
    'functions',
    (app) => [
      new ServiceAccounts(app, ['functions']),
      new ProgramRights(app, ['functions']),
      new AddedNetwork(app, 'functions'),
      new AddedPrograms(app, 'functions', { replicas: FUNCTIONS_PODS, volume: '10Gi' }),
    ],
    [
      withSettings('dataplane', [podUrls('functions', FUNCTIONS_PODS)]),
      withSettings('operator', [podUrls('functions', FUNCTIONS_PODS)]),
      withSettings('api', [podUrls('functions', FUNCTIONS_PODS), functionsToken.env], functionsToken),
    ],
  );

const HOSTING_PODS = 1;
/** Sites: deployments and build logs are on the volume. Builds run in a namespace of their own. */
const hosting = () =>
  component(
    'hosting',
    (app) => [
      new ServiceAccounts(app, ['hosting', 'egress']),
      new ProgramRights(app, ['hosting']),
      new OptionalRights(app, 'hosting', 'builds-rights'),
      new AddedNetwork(app, 'hosting'),
      new FormsNetwork(app),
      new FormsService(app),
      new BuildsNamespace(app),
      new BuildsNetwork(app),
      new BuildEgress(app),
      new AddedPrograms(app, 'hosting', { replicas: HOSTING_PODS, volume: '50Gi' }),
    ],
    [
      withSettings('dataplane', [podUrls('hosting', HOSTING_PODS)]),
      withSettings('operator', [podUrls('hosting', HOSTING_PODS)]),
      withSettings('egress', [podUrls('hosting', HOSTING_PODS)]),
      withSettings('api', [podUrls('hosting', HOSTING_PODS), hostingToken.env, formsPort.env], {
        ...hostingToken,
        port: formsPort.port,
      }),
    ],
  );

/** A program of the base with additional variables, a volume and a port. */
function withSettings(
  program: 'dataplane' | 'operator' | 'api' | 'egress',
  env: V1EnvVar[],
  more?: { volume: V1Volume; mount: V1VolumeMount; port?: V1ContainerPort },
): Patch {
  const pod = '/spec/template/spec';
  const operations = [
    ...env.map((variable) => operation('add', `${pod}/containers/0/env/-`, variable)),
    ...(more ? [operation('add', `${pod}/volumes/-`, more.volume)] : []),
    ...(more ? [operation('add', `${pod}/containers/0/volumeMounts/-`, more.mount)] : []),
    ...(more?.port ? [operation('add', `${pod}/containers/0/ports/-`, more.port)] : []),
  ];
  return { target: { kind: 'Deployment', name: PROGRAMS[program] }, patch: yaml(operations) };
}

const operation = (op: 'add' | 'replace', path: string, value: unknown) => ({ op, path, value });
const resourcesAt = '/spec/template/spec/containers/0/resources/requests';

const smaller = (name: string, cpu: string, memory: string) => ({
  target: { kind: 'Deployment|StatefulSet', name },
  patch: yaml([operation('replace', resourcesAt, { cpu, memory })]),
});
const SMALL = [
  smaller('slipway-(operator|api|dataplane|realtime|storage|functions|hosting|build-egress)', '25m', '64Mi'),
  smaller(PROGRAMS.postgres, '50m', '128Mi'),
];
/** Its namespace is known there, and needs no label. */
const INGRESS_NGINX = {
  target: { kind: 'NetworkPolicy', name: 'slipway-(api|dataplane)' },
  patch: yaml([
    operation('replace', '/spec/ingress/0/from/0/namespaceSelector/matchLabels', {
      'kubernetes.io/metadata.name': 'ingress-nginx',
    }),
  ]),
};

/** The node of the test cluster has the registry of images and git servers. */
const TEST_NETWORK = {
  target: { kind: 'NetworkPolicy', name: PROGRAMS.egress },
  patch: yaml([
    operation('add', '/spec/egress/-', {
      to: TEST_SITE.outbound.allowedNetworks.map((cidr) => ({ ipBlock: { cidr } })),
    }),
  ]),
};

/** For a site that sets `url` of the Secret slipway-postgres to its own Postgres. */
function externalPostgres(): Files {
  const removed = (kind: string, apiVersion: string) => ({
    patch: yaml({
      apiVersion,
      kind,
      metadata: { name: 'slipway-postgres', namespace: SYSTEM_NAMESPACE },
      $patch: 'delete',
    }),
  });
  const outwards = yaml([operation('add', '/spec/egress/-', { ports: [{ protocol: 'TCP', port: 5432 }] })]);
  return new Map([
    [
      'components/external-postgres/kustomization.yaml',
      kustomization('Component', {
        patches: [
          removed('StatefulSet', 'apps/v1'),
          removed('Service', 'v1'),
          removed('NetworkPolicy', 'networking.k8s.io/v1'),
          { target: { kind: 'NetworkPolicy', name: 'slipway-(operator|api)' }, patch: outwards },
        ],
      }),
    ],
  ]);
}
