/** Names in the charts and the overlays that programs do not share. */
import { SYSTEM_NAMESPACE } from '@slipway/installation';

export { API_SECRET, POSTGRES_SECRET } from '@slipway/installation';

/** The programs that every installation has, each with a service account of its own. */
export const ACCOUNTS = ['operator', 'api', 'dataplane', 'realtime'] as const;
/** Programs that a site adds by components. */
export type AddedAccount = 'storage' | 'functions' | 'hosting' | 'egress';
export type Account = (typeof ACCOUNTS)[number] | AddedAccount;

export const IMAGES = ['operator', 'api', 'dataplane'] as const;
/** Without a tag: an overlay chooses registry and tag by kustomize's `images`. */
export const imageOf = (image: (typeof IMAGES)[number]) => `slipway/${image}`;
/** This image clones and publishes in the pods of builds. Only the settings of a site name it. */
export const BUILDER_IMAGE = 'slipway/builder';
export const PORT = 8080;
/** Metrics port of programs whose PORT serves users. */
export const METRICS_PORT = 9090;

export const NAME_LABEL = 'app.kubernetes.io/name';
export const selectorOf = (name: string) => ({ [NAME_LABEL]: name });

/** Returns the recommended labels of a component of the platform. */
export const labelsOf = (name: string, component: string) => ({
  ...selectorOf(name),
  'app.kubernetes.io/instance': 'slipway',
  'app.kubernetes.io/component': component,
  'app.kubernetes.io/part-of': 'slipway',
});

/** Label of the ingress controller's namespace, if its pods are on the pod network. */
export const LABEL_INGRESS = 'slipway.dev/ingress';
/** Label of the namespaces whose pods may read the programs' metrics. */
export const LABEL_MONITORING = 'slipway.dev/monitoring';

/** A Secret of the site: the SMTP server for mails to accounts. */
export const SMTP_SECRET = { name: 'slipway-smtp', url: 'url', from: 'from' } as const;
/** A Secret of the site: the S3 of the files, as docs/storage.md describes. */
export const S3_SECRET = { name: 'slipway-storage-s3', key: 's3.json' } as const;

export const serviceHostOf = (name: string) => `${name}.${SYSTEM_NAMESPACE}.svc`;
