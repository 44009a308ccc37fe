/** The platform's programs: for each its pods, a Service, and how many of its pods may be away at once. */
import type {
  V1Container,
  V1ContainerPort,
  V1EnvVar,
  V1PodTemplateSpec,
  V1Volume,
  V1VolumeMount,
} from '@kubernetes/client-node';
import {
  FUNCTIONS_CONTROL_PORT,
  FUNCTIONS_SECRET,
  POD_URLS_SETTINGS,
  PROGRAMS,
  SETUP_SECRET,
  SITE_CONFIG,
  SITE_SETTING,
  SYSTEM_NAMESPACE,
} from '@slipway/crds';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import {
  type Account,
  type AddedAccount,
  API_SECRET,
  type IMAGES,
  imageOf,
  labelsOf,
  METRICS_PORT,
  PORT,
  S3_SECRET,
  SMTP_SECRET,
  selectorOf,
  serviceHostOf,
} from '../names.js';
import { add } from '../objects.js';
import { containerSecurity, podSecurity, spread, TMP } from '../pod.js';

const SITE_FOLDER = '/etc/slipway';
const KEYS_FOLDER = '/etc/slipway-keys';
/** The images' user `node`. */
const USER = 1000;
/** Where pods keep what is to be there after a restart. */
const DATA_FOLDER = '/var/lib/slipway';
const S3_FOLDER = '/etc/slipway-s3';
const SETUP_FOLDER = '/etc/slipway-setup';
const SMTP_FOLDER = '/etc/slipway-smtp';
const TOKEN_FOLDER = '/etc/slipway-functions';

interface ProgramParts {
  image: (typeof IMAGES)[number];
  resources: NonNullable<V1Container['resources']>;
  env: V1EnvVar[];
  /** Where Prometheus finds /metrics. */
  metricsPort: number;
  ports?: V1ContainerPort[];
  volumes?: V1Volume[];
  mounts?: V1VolumeMount[];
}

const resources = (cpu: string, memory: string, limit: string) => ({
  requests: { cpu, memory },
  limits: { memory: limit },
});
const dataplane = { name: 'SLIPWAY_DATAPLANE_URL', value: `http://${serviceHostOf(PROGRAMS.dataplane)}` };
const metrics = { name: 'SLIPWAY_METRICS_LISTEN', value: `0.0.0.0:${METRICS_PORT}` };
const storageFolder = { name: 'SLIPWAY_STORAGE_DIR', value: `${DATA_FOLDER}/storage` };
const data = { name: 'data', mountPath: DATA_FOLDER };

/** A service whose projects have each their pod: which, everybody finds from this list. */
type PodService = keyof typeof POD_URLS_SETTINGS;
export const podUrls = (service: PodService, pods: number): V1EnvVar => ({
  name: POD_URLS_SETTINGS[service],
  value: Array.from(
    { length: pods },
    (_, index) => `http://${PROGRAMS[service]}-${index}.${serviceHostOf(PROGRAMS[service])}:${PORT}`,
  ).join(','),
});

/** The token of the pods of functions: mounted in theirs, and in the API's, which reads logs. */
export const functionsToken: { volume: V1Volume; mount: V1VolumeMount; env: V1EnvVar } = {
  volume: { name: 'functions-token', secret: { secretName: FUNCTIONS_SECRET.name, defaultMode: 0o440 } },
  mount: { name: 'functions-token', mountPath: TOKEN_FOLDER, readOnly: true },
  env: { name: 'SLIPWAY_FUNCTIONS_TOKEN', value: `${TOKEN_FOLDER}/${FUNCTIONS_SECRET.token}` },
};

/** The API's way to send mail. */
export const smtp: { volume: V1Volume; mount: V1VolumeMount; env: V1EnvVar[] } = {
  volume: {
    name: 'smtp',
    secret: {
      secretName: SMTP_SECRET.name,
      defaultMode: 0o440,
      items: [{ key: SMTP_SECRET.url, path: SMTP_SECRET.url }],
    },
  },
  mount: { name: 'smtp', mountPath: SMTP_FOLDER, readOnly: true },
  env: [
    { name: 'SLIPWAY_SMTP_URL', value: `${SMTP_FOLDER}/${SMTP_SECRET.url}` },
    { name: 'SLIPWAY_SMTP_FROM', valueFrom: { secretKeyRef: { name: SMTP_SECRET.name, key: SMTP_SECRET.from } } },
  ],
};

const PARTS: Record<Account, ProgramParts> = {
  operator: {
    image: 'operator',
    resources: resources('100m', '192Mi', '512Mi'),
    env: [dataplane],
    metricsPort: PORT,
  },
  api: {
    image: 'api',
    resources: resources('100m', '256Mi', '512Mi'),
    env: [
      dataplane,
      metrics,
      {
        name: 'SLIPWAY_DATABASE_URL',
        valueFrom: { secretKeyRef: { name: API_SECRET.name, key: API_SECRET.databaseUrl } },
      },
      { name: 'SLIPWAY_JWT_SECRET', value: `${KEYS_FOLDER}/${API_SECRET.jwtSecret}` },
      { name: 'SLIPWAY_ENCRYPTION_KEYS', value: `${KEYS_FOLDER}/${API_SECRET.encryptionKeys}` },
      { name: 'SLIPWAY_SETUP_CODE', value: `${SETUP_FOLDER}/${SETUP_SECRET.code}` },
    ],
    metricsPort: METRICS_PORT,
    volumes: [
      {
        name: 'keys',
        secret: {
          secretName: API_SECRET.name,
          defaultMode: 0o440,
          items: [API_SECRET.jwtSecret, API_SECRET.encryptionKeys].map((key) => ({ key, path: key })),
        },
      },
      // Not there before the operator of this version leads; the API reads it at each use.
      { name: 'setup', secret: { secretName: SETUP_SECRET.name, defaultMode: 0o440, optional: true } },
    ],
    mounts: [
      { name: 'keys', mountPath: KEYS_FOLDER, readOnly: true },
      { name: 'setup', mountPath: SETUP_FOLDER, readOnly: true },
    ],
  },
  dataplane: {
    image: 'dataplane',
    resources: resources('100m', '256Mi', '1Gi'),
    env: [metrics, podUrls('realtime', 1)],
    metricsPort: METRICS_PORT,
  },
  realtime: {
    image: 'dataplane',
    resources: resources('100m', '256Mi', '1Gi'),
    env: [metrics],
    metricsPort: METRICS_PORT,
  },
  storage: {
    image: 'dataplane',
    resources: resources('100m', '256Mi', '1Gi'),
    env: [metrics, storageFolder],
    metricsPort: METRICS_PORT,
    mounts: [data],
  },
  functions: {
    image: 'dataplane',
    // Of all functions together: docs/functions.md says what one of them may use.
    resources: resources('200m', '512Mi', '4Gi'),
    env: [
      metrics,
      dataplane,
      functionsToken.env,
      { name: 'SLIPWAY_FUNCTIONS_DIR', value: `${DATA_FOLDER}/functions` },
      { name: 'SLIPWAY_FUNCTIONS_CONTROL', value: `0.0.0.0:${FUNCTIONS_CONTROL_PORT}` },
    ],
    ports: [{ name: 'control', containerPort: FUNCTIONS_CONTROL_PORT }],
    metricsPort: METRICS_PORT,
    volumes: [functionsToken.volume],
    mounts: [data, functionsToken.mount],
  },
};

/** With S3 for the bytes: what is not whole yet is gathered on the node. */
const S3_STORAGE: ProgramParts = {
  ...PARTS.storage,
  env: [...PARTS.storage.env, { name: 'SLIPWAY_STORAGE_S3', value: `${S3_FOLDER}/${S3_SECRET.key}` }],
  volumes: [
    { name: 's3', secret: { secretName: S3_SECRET.name, defaultMode: 0o440 } },
    { name: data.name, emptyDir: { sizeLimit: '20Gi' } },
  ],
  mounts: [data, { name: 's3', mountPath: S3_FOLDER, readOnly: true }],
};

export class Programs extends Chart {
  constructor(scope: Construct) {
    super(scope, 'programs', { namespace: SYSTEM_NAMESPACE });
    for (const program of ['operator', 'api', 'dataplane'] as const) this.#deployment(program);
    for (const program of ['api', 'dataplane'] as const) this.#service(program);
    servicePods(this, 'realtime', { replicas: 1 });
  }

  #deployment(program: Account): void {
    const name = PROGRAMS[program];
    const metadata = { name, labels: labelsOf(name, program) };
    const selector = { matchLabels: selectorOf(name) };
    add(this, 'Deployment', {
      metadata,
      spec: {
        replicas: 2,
        selector,
        strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
        template: podTemplate(program),
      },
    });
    add(this, 'PodDisruptionBudget', { metadata, spec: { maxUnavailable: 1, selector } });
  }

  #service(program: Account): void {
    const name = PROGRAMS[program];
    add(this, 'Service', {
      metadata: { name, labels: labelsOf(name, program) },
      spec: {
        selector: selectorOf(name),
        ports: [{ name: 'http', port: 80, targetPort: 'http', appProtocol: 'http' }],
      },
    });
  }
}

interface ServicePodsOptions {
  replicas: number;
  /** The size of a volume for each pod. */
  volume?: string;
  parts?: ProgramParts;
}

/** Pods that have names, so that all gateways choose the same one for a project. */
function servicePods(chart: Chart, account: PodService, { replicas, volume, parts }: ServicePodsOptions): void {
  const name = PROGRAMS[account];
  const labels = labelsOf(name, account);
  const metadata = { name, labels };
  const selector = { matchLabels: selectorOf(name) };
  add(chart, 'Service', {
    metadata,
    spec: {
      clusterIP: 'None',
      selector: selectorOf(name),
      ports: [{ name: 'http', port: PORT, targetPort: 'http' }],
    },
  });
  const claim = volume && {
    metadata: { name: data.name, labels },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: volume } } },
  };
  add(chart, 'StatefulSet', {
    metadata,
    spec: {
      serviceName: name,
      replicas,
      podManagementPolicy: 'Parallel',
      selector,
      template: podTemplate(account, parts),
      ...(claim ? { volumeClaimTemplates: [claim] } : {}),
    },
  });
  if (replicas > 1) add(chart, 'PodDisruptionBudget', { metadata, spec: { maxUnavailable: 1, selector } });
}

/** Programs that a site adds, as their component says. */
export class AddedPrograms extends Chart {
  constructor(scope: Construct, account: AddedAccount, options: { replicas: number; volume?: string }) {
    super(scope, 'programs', { namespace: SYSTEM_NAMESPACE });
    const onS3 = account === 'storage' && options.volume === undefined;
    servicePods(this, account, { ...options, ...(onS3 ? { parts: S3_STORAGE } : {}) });
  }
}

function podTemplate(program: Account, parts = PARTS[program]): V1PodTemplateSpec {
  const name = PROGRAMS[program];
  const { metricsPort, volumes = [] } = parts;
  const annotations = {
    'prometheus.io/scrape': 'true',
    'prometheus.io/port': String(metricsPort),
    'prometheus.io/path': '/metrics',
  };
  return {
    metadata: { labels: labelsOf(name, program), annotations },
    spec: {
      serviceAccountName: name,
      automountServiceAccountToken: true,
      enableServiceLinks: false,
      securityContext: podSecurity(USER),
      topologySpreadConstraints: spread(name),
      terminationGracePeriodSeconds: 30,
      containers: [container(program, parts)],
      volumes: [TMP.volume, { name: 'site', configMap: { name: SITE_CONFIG.name } }, ...volumes],
    },
  };
}

function container(program: Account, parts: ProgramParts): V1Container {
  const { image, resources, env, metricsPort, ports = [], mounts = [] } = parts;
  const ask = (path: string) => ({ httpGet: { path, port: 'http' }, timeoutSeconds: 5 });
  return {
    name: program,
    image: imageOf(image),
    imagePullPolicy: 'IfNotPresent',
    env: [
      { name: SITE_SETTING, value: `${SITE_FOLDER}/${SITE_CONFIG.key}` },
      { name: 'SLIPWAY_LISTEN', value: `0.0.0.0:${PORT}` },
      { name: 'HOME', value: TMP.mount.mountPath },
      ...env,
    ],
    ports: [
      { name: 'http', containerPort: PORT },
      ...(metricsPort === PORT ? [] : [{ name: 'metrics', containerPort: metricsPort }]),
      ...ports,
    ],
    // Its database, its Secrets and the API server may be a while in coming.
    startupProbe: { ...ask('/healthz'), periodSeconds: 2, failureThreshold: 90 },
    livenessProbe: { ...ask('/healthz'), periodSeconds: 10, failureThreshold: 3 },
    readinessProbe: { ...ask('/readyz'), periodSeconds: 5, failureThreshold: 2 },
    resources,
    // Requests come in until all have heard that it stops.
    ...(program === 'operator' ? {} : { lifecycle: { preStop: { sleep: { seconds: 3 } } } }),
    securityContext: containerSecurity,
    volumeMounts: [TMP.mount, { name: 'site', mountPath: SITE_FOLDER, readOnly: true }, ...mounts],
  };
}
