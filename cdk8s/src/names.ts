/** Names in the charts and the overlays that programs do not share. */
import { SYSTEM_NAMESPACE } from '@slipway/crds';

export { API_SECRET, POSTGRES_SECRET } from '@slipway/crds';

/** The programs that every installation has, each with a service account of its own. */
export const ACCOUNTS = ['operator', 'api', 'dataplane', 'realtime'] as const;
/** And those that a site adds by components. */
export type AddedAccount = 'storage' | 'functions';
export type Account = (typeof ACCOUNTS)[number] | AddedAccount;

export const IMAGES = ['operator', 'api', 'dataplane'] as const;
/** Without a tag: an overlay chooses the registry and the tag by kustomize's `images`. */
export const imageOf = (image: (typeof IMAGES)[number]) => `slipway/${image}`;
export const PORT = 8080;
/** Metrics port of programs whose PORT is for people. */
export const METRICS_PORT = 9090;

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

/** The site's: the SMTP server that mails to accounts are sent by. */
export const SMTP_SECRET = { name: 'slipway-smtp', url: 'url', from: 'from' } as const;
/** The site's: which S3 holds the files, as docs/storage.md has it. */
export const S3_SECRET = { name: 'slipway-storage-s3', key: 's3.json' } as const;

export const serviceHostOf = (name: string) => `${name}.${SYSTEM_NAMESPACE}.svc`;
