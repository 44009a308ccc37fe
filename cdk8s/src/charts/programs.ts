/** The platform's programs: for each its pods, a Service, and how many of its pods may be away at once. */
import type { V1Container, V1EnvVar, V1PodTemplateSpec, V1Volume, V1VolumeMount } from '@kubernetes/client-node';
import { PROGRAMS, SITE_CONFIG, SITE_SETTING, SYSTEM_NAMESPACE } from '@slipway/crds';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import {
  type Account,
  API_SECRET,
  type IMAGES,
  imageOf,
  labelsOf,
  METRICS_PORT,
  PORT,
  selectorOf,
  serviceHostOf,
} from '../names.js';
import { add } from '../objects.js';
import { containerSecurity, podSecurity, spread, TMP } from '../pod.js';

const SITE_FOLDER = '/etc/slipway';
const KEYS_FOLDER = '/etc/slipway-keys';
/** The images' user `node`. */
const USER = 1000;
/** A project's channels live in one process: which, the gateways find from this list. */
const REALTIME_PODS = 1;

interface ProgramParts {
  image: (typeof IMAGES)[number];
  resources: NonNullable<V1Container['resources']>;
  env: V1EnvVar[];
  /** Where Prometheus finds /metrics. */
  metricsPort: number;
  volumes?: V1Volume[];
  mounts?: V1VolumeMount[];
}

const resources = (cpu: string, memory: string, limit: string) => ({
  requests: { cpu, memory },
  limits: { memory: limit },
});
const dataplane = { name: 'SLIPWAY_DATAPLANE_URL', value: `http://${serviceHostOf(PROGRAMS.dataplane)}` };
const metrics = { name: 'SLIPWAY_METRICS_LISTEN', value: `0.0.0.0:${METRICS_PORT}` };
const realtime = {
  name: 'SLIPWAY_REALTIME_URLS',
  value: Array.from(
    { length: REALTIME_PODS },
    (_, index) => `http://${PROGRAMS.realtime}-${index}.${serviceHostOf(PROGRAMS.realtime)}:${PORT}`,
  ).join(','),
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
    ],
    mounts: [{ name: 'keys', mountPath: KEYS_FOLDER, readOnly: true }],
  },
  dataplane: {
    image: 'dataplane',
    resources: resources('100m', '256Mi', '1Gi'),
    env: [metrics, realtime],
    metricsPort: METRICS_PORT,
  },
  realtime: {
    image: 'dataplane',
    resources: resources('100m', '256Mi', '1Gi'),
    env: [metrics],
    metricsPort: METRICS_PORT,
  },
};

export class Programs extends Chart {
  constructor(scope: Construct) {
    super(scope, 'programs', { namespace: SYSTEM_NAMESPACE });
    for (const program of ['operator', 'api', 'dataplane'] as const) this.#deployment(program);
    for (const program of ['api', 'dataplane'] as const) this.#service(program);
    this.#realtime();
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

  /** Its pods have names, so that all gateways choose the same one for a project. */
  #realtime(): void {
    const name = PROGRAMS.realtime;
    const metadata = { name, labels: labelsOf(name, 'realtime') };
    add(this, 'Service', {
      metadata,
      spec: {
        clusterIP: 'None',
        selector: selectorOf(name),
        ports: [{ name: 'http', port: PORT, targetPort: 'http' }],
      },
    });
    add(this, 'StatefulSet', {
      metadata,
      spec: {
        serviceName: name,
        replicas: REALTIME_PODS,
        podManagementPolicy: 'Parallel',
        selector: { matchLabels: selectorOf(name) },
        template: podTemplate('realtime'),
      },
    });
  }
}

function podTemplate(program: Account): V1PodTemplateSpec {
  const name = PROGRAMS[program];
  const { metricsPort, volumes = [] } = PARTS[program];
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
      containers: [container(program, PARTS[program])],
      volumes: [TMP.volume, { name: 'site', configMap: { name: SITE_CONFIG.name } }, ...volumes],
    },
  };
}

function container(program: Account, { image, resources, env, metricsPort, mounts = [] }: ProgramParts): V1Container {
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
