/** The platform's programs: pods and a Service for each, and how many of its pods may be unavailable at once. */

import {
  BUILD_EGRESS_PORT,
  FORMS_PORT,
  FORMS_SERVICE,
  FUNCTIONS_CONTROL_PORT,
  FUNCTIONS_SECRET,
  HOSTING_SECRET,
  HOSTING_STORE_PORT,
  LOGS_PORT,
  LOGS_SECRET,
  LOGS_SERVICE,
  POD_URLS_SETTINGS,
  PROGRAMS,
  SETUP_SECRET,
  SITE_CONFIG,
  SITE_SETTING,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import type {
  V1Container,
  V1ContainerPort,
  V1EnvVar,
  V1PodTemplateSpec,
  V1Volume,
  V1VolumeMount,
} from '@slipway/kubernetes/models.js';
import { LOOKUP_THREADS } from '@slipway/program';
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
/** Folder of the pods' volumes, whose files survive a restart. */
const DATA_FOLDER = '/var/lib/slipway';
const S3_FOLDER = '/etc/slipway-s3';
const SETUP_FOLDER = '/etc/slipway-setup';
const SMTP_FOLDER = '/etc/slipway-smtp';
const TOKEN_FOLDER = '/etc/slipway-functions';
const HOSTING_TOKEN_FOLDER = '/etc/slipway-hosting';
const LOGS_TOKEN_FOLDER = '/etc/slipway-logs';

interface ProgramParts {
  image: (typeof IMAGES)[number];
  resources: NonNullable<V1Container['resources']>;
  env: V1EnvVar[];
  /** Port at which Prometheus finds /metrics; undefined: the program has no metrics. */
  metricsPort?: number;
  /** Replaces the command of the image. */
  command?: string[];
  /** True if the program uses the Kubernetes API. */
  hasToken?: boolean;
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
/** On a volume that survives a restart of the container. */
const hangRecord = { name: 'SLIPWAY_HANG_RECORD', value: `${TMP.mount.mountPath}/hangs.json` };
const data = { name: 'data', mountPath: DATA_FOLDER };

/** A service with one pod for each project; every program chooses that pod from this list. */
type PodService = keyof typeof POD_URLS_SETTINGS;
export const podUrls = (service: PodService, pods: number): V1EnvVar => ({
  name: POD_URLS_SETTINGS[service],
  value: Array.from(
    { length: pods },
    (_, index) => `http://${PROGRAMS[service]}-${index}.${serviceHostOf(PROGRAMS[service])}:${PORT}`,
  ).join(','),
});

/** The token of the functions' pods: mounted in those pods, and in the API's, which reads logs. */
export const functionsToken: { volume: V1Volume; mount: V1VolumeMount; env: V1EnvVar } = {
  volume: { name: 'functions-token', secret: { secretName: FUNCTIONS_SECRET.name, defaultMode: 0o440 } },
  mount: { name: 'functions-token', mountPath: TOKEN_FOLDER, readOnly: true },
  env: { name: 'SLIPWAY_FUNCTIONS_TOKEN', value: `${TOKEN_FOLDER}/${FUNCTIONS_SECRET.token}` },
};

/**
 * The token of the pods of sites: mounted in these pods, which send entries of forms to the API, and in the API's,
 * which reads logs of builds from their store.
 */
export const hostingToken: { volume: V1Volume; mount: V1VolumeMount; env: V1EnvVar } = {
  volume: { name: 'hosting-token', secret: { secretName: HOSTING_SECRET.name, defaultMode: 0o440 } },
  mount: { name: 'hosting-token', mountPath: HOSTING_TOKEN_FOLDER, readOnly: true },
  env: { name: 'SLIPWAY_HOSTING_TOKEN', value: `${HOSTING_TOKEN_FOLDER}/${HOSTING_SECRET.token}` },
};

/** The token of the gateways' logs of projects: mounted in the gateways, and in the API's pods, which read them. */
const logsToken = {
  volume: { name: 'logs-token', secret: { secretName: LOGS_SECRET.name, defaultMode: 0o440 } },
  mount: { name: 'logs-token', mountPath: LOGS_TOKEN_FOLDER, readOnly: true },
  env: { name: 'SLIPWAY_PROJECT_LOGS_TOKEN', value: `${LOGS_TOKEN_FOLDER}/${LOGS_SECRET.token}` },
};

/** The API's port for entries of forms, and its variable. */
export const formsPort = {
  port: { name: 'forms', containerPort: FORMS_PORT },
  env: { name: 'SLIPWAY_FORMS_LISTEN', value: `0.0.0.0:${FORMS_PORT}` },
};

/** The SMTP settings of the API. */
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
      logsToken.env,
      { name: 'SLIPWAY_PROJECT_LOGS_HOST', value: serviceHostOf(LOGS_SERVICE) },
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
      // The Secret is missing until the operator of this version leads; the API reads it at each use.
      { name: 'setup', secret: { secretName: SETUP_SECRET.name, defaultMode: 0o440, optional: true } },
      logsToken.volume,
    ],
    mounts: [
      { name: 'keys', mountPath: KEYS_FOLDER, readOnly: true },
      { name: 'setup', mountPath: SETUP_FOLDER, readOnly: true },
      logsToken.mount,
    ],
  },
  dataplane: {
    image: 'dataplane',
    resources: resources('100m', '256Mi', '1Gi'),
    env: [
      metrics,
      hangRecord,
      podUrls('realtime', 1),
      logsToken.env,
      { name: 'SLIPWAY_PROJECT_LOGS_LISTEN', value: `0.0.0.0:${LOGS_PORT}` },
    ],
    ports: [{ name: 'logs', containerPort: LOGS_PORT }],
    metricsPort: METRICS_PORT,
    volumes: [logsToken.volume],
    mounts: [logsToken.mount],
  },
  realtime: {
    image: 'dataplane',
    resources: resources('100m', '256Mi', '1Gi'),
    env: [metrics, hangRecord],
    metricsPort: METRICS_PORT,
  },
  storage: {
    image: 'dataplane',
    resources: resources('100m', '256Mi', '1Gi'),
    env: [metrics, hangRecord, storageFolder],
    metricsPort: METRICS_PORT,
    mounts: [data],
  },
  functions: {
    image: 'dataplane',
    // For all functions of the pod together: docs/limits.md has the limits of one function.
    resources: resources('200m', '512Mi', '4Gi'),
    env: [
      metrics,
      hangRecord,
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
  hosting: {
    image: 'dataplane',
    resources: resources('100m', '256Mi', '1Gi'),
    env: [
      metrics,
      hangRecord,
      hostingToken.env,
      { name: 'SLIPWAY_SITES_DIR', value: `${DATA_FOLDER}/sites` },
      { name: 'SLIPWAY_BUILDS_DIR', value: `${DATA_FOLDER}/builds` },
      { name: 'SLIPWAY_HOSTING_STORE', value: `0.0.0.0:${HOSTING_STORE_PORT}` },
      { name: 'SLIPWAY_FORMS_URL', value: `http://${serviceHostOf(FORMS_SERVICE)}:${FORMS_PORT}` },
    ],
    ports: [{ name: 'store', containerPort: HOSTING_STORE_PORT }],
    metricsPort: METRICS_PORT,
    volumes: [hostingToken.volume],
    mounts: [data, hostingToken.mount],
  },
  egress: {
    image: 'operator',
    resources: resources('50m', '64Mi', '512Mi'),
    env: [{ name: 'SLIPWAY_API_URL', value: `http://${serviceHostOf(PROGRAMS.api)}` }],
    command: ['node', '--enable-source-maps', 'operator/dist/build-egress/main.js'],
    hasToken: false,
  },
};

/** With files in S3, incomplete uploads are collected on the node. */
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
    for (const program of ['operator', 'api', 'dataplane'] as const) deployment(this, program);
    for (const program of ['api', 'dataplane'] as const) service(this, program);
    gatewayLogs(this);
    servicePods(this, 'realtime', { replicas: 1 });
  }
}

function deployment(chart: Chart, program: Account): void {
  const name = PROGRAMS[program];
  const metadata = { name, labels: labelsOf(name, program) };
  const selector = { matchLabels: selectorOf(name) };
  add(chart, 'Deployment', {
    metadata,
    spec: {
      replicas: 2,
      selector,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
      template: podTemplate(program),
    },
  });
  add(chart, 'PodDisruptionBudget', { metadata, spec: { maxUnavailable: 1, selector } });
}

function service(chart: Chart, program: Account, port = 80): void {
  const name = PROGRAMS[program];
  add(chart, 'Service', {
    metadata: { name, labels: labelsOf(name, program) },
    spec: {
      selector: selectorOf(name),
      ports: [{ name: 'http', port, targetPort: 'http', appProtocol: 'http' }],
    },
  });
}

/** The addresses of all gateways: each has the lines of the requests that it served. */
function gatewayLogs(chart: Chart): void {
  add(chart, 'Service', {
    metadata: { name: LOGS_SERVICE, labels: labelsOf(PROGRAMS.dataplane, 'dataplane') },
    spec: {
      clusterIP: 'None',
      selector: selectorOf(PROGRAMS.dataplane),
      ports: [{ name: 'logs', port: LOGS_PORT, targetPort: 'logs' }],
    },
  });
}

/** The only route of builds to other hosts. */
export class BuildEgress extends Chart {
  constructor(scope: Construct) {
    super(scope, 'build-egress', { namespace: SYSTEM_NAMESPACE });
    deployment(this, 'egress');
    service(this, 'egress', BUILD_EGRESS_PORT);
  }
}

/** Service of the API's port for entries of forms, which only the pods of sites may reach. */
export class FormsService extends Chart {
  constructor(scope: Construct) {
    super(scope, 'forms-service', { namespace: SYSTEM_NAMESPACE });
    const { name } = formsPort.port;
    add(this, 'Service', {
      metadata: { name: FORMS_SERVICE, labels: labelsOf(PROGRAMS.api, 'api') },
      spec: {
        selector: selectorOf(PROGRAMS.api),
        ports: [{ name, port: FORMS_PORT, targetPort: name, appProtocol: 'http' }],
      },
    });
  }
}

interface ServicePodsOptions {
  replicas: number;
  /** Size of the volume of each pod. */
  volume?: string;
  parts?: ProgramParts;
}

/** Pods with stable names, so that all gateways choose the same pod for a project. */
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

/** Programs that a site adds by a component. */
export class AddedPrograms extends Chart {
  constructor(
    scope: Construct,
    account: Exclude<AddedAccount, 'egress'>,
    options: { replicas: number; volume?: string },
  ) {
    super(scope, 'programs', { namespace: SYSTEM_NAMESPACE });
    const onS3 = account === 'storage' && options.volume === undefined;
    servicePods(this, account, { ...options, ...(onS3 ? { parts: S3_STORAGE } : {}) });
  }
}

function podTemplate(program: Account, parts = PARTS[program]): V1PodTemplateSpec {
  const name = PROGRAMS[program];
  const { metricsPort, volumes = [], hasToken = true } = parts;
  const annotations =
    metricsPort === undefined
      ? undefined
      : {
          'prometheus.io/scrape': 'true',
          'prometheus.io/port': String(metricsPort),
          'prometheus.io/path': '/metrics',
        };
  return {
    metadata: { labels: labelsOf(name, program), ...(annotations ? { annotations } : {}) },
    spec: {
      serviceAccountName: name,
      automountServiceAccountToken: hasToken,
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
  const { image, resources, env, metricsPort = PORT, ports = [], mounts = [], command } = parts;
  const ask = (path: string) => ({ httpGet: { path, port: 'http' }, timeoutSeconds: 5 });
  return {
    name: program,
    image: imageOf(image),
    imagePullPolicy: 'IfNotPresent',
    ...(command ? { command } : {}),
    env: [
      { name: SITE_SETTING, value: `${SITE_FOLDER}/${SITE_CONFIG.key}` },
      { name: 'SLIPWAY_LISTEN', value: `0.0.0.0:${PORT}` },
      { name: 'HOME', value: TMP.mount.mountPath },
      { name: 'UV_THREADPOOL_SIZE', value: LOOKUP_THREADS.UV_THREADPOOL_SIZE },
      ...env,
    ],
    ports: [
      { name: 'http', containerPort: PORT },
      ...(metricsPort === PORT ? [] : [{ name: 'metrics', containerPort: metricsPort }]),
      ...ports,
    ],
    // The program may wait for its database, its Secrets and the API server.
    startupProbe: { ...ask('/healthz'), periodSeconds: 2, failureThreshold: 90 },
    // The watchdog ends a program that hangs. It measures processor time, so on a busy node that may take minutes. The
    // probe ends a program that hangs without using the processor.
    livenessProbe: { ...ask('/healthz'), periodSeconds: 10, failureThreshold: 30 },
    readinessProbe: { ...ask('/readyz'), periodSeconds: 5, failureThreshold: 2 },
    resources,
    // Requests still arrive until every proxy knows that the pod stops.
    ...(program === 'operator' ? {} : { lifecycle: { preStop: { sleep: { seconds: 3 } } } }),
    securityContext: containerSecurity,
    volumeMounts: [TMP.mount, { name: 'site', mountPath: SITE_FOLDER, readOnly: true }, ...mounts],
  };
}
