/** The programs of an installation, as the charts and the overlays name them. */
import { SYSTEM_NAMESPACE } from '@slipway/crds';

export const PROGRAMS = ['operator', 'api', 'dataplane'] as const;
export type Program = (typeof PROGRAMS)[number];

export const objectNameOf = (program: Program) => `slipway-${program}`;
/** Without a tag: an overlay chooses the registry and the tag by kustomize's `images`. */
export const imageOf = (program: Program) => `slipway/${program}`;
export const PORT = 8080;
/** Of the programs whose PORT is for people. */
export const METRICS_PORT = 9090;

export const PLATFORM_POSTGRES = 'slipway-postgres';
/** What the operator makes at its first start, and the API mounts. */
export const API_SECRET = {
  name: 'slipway-api',
  databaseUrl: 'database-url',
  jwtSecret: 'jwt-secret',
  encryptionKeys: 'encryption-keys.json',
} as const;
export const POSTGRES_SECRET = { name: 'slipway-postgres', password: 'password' } as const;

export const NAME_LABEL = 'app.kubernetes.io/name';
export const selectorOf = (name: string) => ({ [NAME_LABEL]: name });

/** The recommended labels of a part of the platform. */
export const labelsOf = (name: string, component: string) => ({
  ...selectorOf(name),
  'app.kubernetes.io/instance': 'slipway',
  'app.kubernetes.io/component': component,
  'app.kubernetes.io/part-of': 'slipway',
});

/** The namespace of the ingress controller carries it, where that has pods of its own network. */
export const LABEL_INGRESS = 'slipway.dev/ingress';
/** Namespaces whose pods may read the programs' metrics carry it. */
export const LABEL_MONITORING = 'slipway.dev/monitoring';

export const serviceHostOf = (name: string) => `${name}.${SYSTEM_NAMESPACE}.svc`;
