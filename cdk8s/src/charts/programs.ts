/** The platform's programs: for each a Deployment, a Service, and how many of its pods may be away at once. */
import type { V1Container, V1EnvVar, V1Probe, V1Volume, V1VolumeMount } from '@kubernetes/client-node';
import { SITE_CONFIG, SITE_SETTING, SYSTEM_NAMESPACE } from '@slipway/crds';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import {
  API_SECRET,
  imageOf,
  labelsOf,
  METRICS_PORT,
  objectNameOf,
  PORT,
  type Program,
  selectorOf,
  serviceHostOf,
} from '../names.js';
import { add } from '../objects.js';
import { containerSecurity, podSecurity, spread, TMP } from '../pod.js';

const SITE_FOLDER = '/etc/slipway';
const KEYS_FOLDER = '/etc/slipway-keys';
/** The images' user `node`. */
const USER = 1000;

interface ProgramParts {
  replicas: number;
  resources: NonNullable<V1Container['resources']>;
  env: V1EnvVar[];
  /** Where Prometheus finds /metrics. */
  metricsPort: number;
  volumes?: V1Volume[];
  mounts?: V1VolumeMount[];
}

const dataplane: V1EnvVar = {
  name: 'SLIPWAY_DATAPLANE_URL',
  value: `http://${serviceHostOf(objectNameOf('dataplane'))}`,
};
const metrics: V1EnvVar = { name: 'SLIPWAY_METRICS_LISTEN', value: `0.0.0.0:${METRICS_PORT}` };
const at = (path: string): V1Probe => ({ httpGet: { path, port: 'http' }, timeoutSeconds: 5 });
const resources = (cpu: string, memory: string, limit: string) => ({
  requests: { cpu, memory },
  limits: { memory: limit },
});

const PARTS: Record<Program, ProgramParts> = {
  operator: {
    replicas: 2,
    resources: resources('100m', '192Mi', '512Mi'),
    env: [dataplane],
    metricsPort: PORT,
  },
  api: {
    replicas: 2,
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
    // Realtime's channels and the reader of a project's changes live in one process.
    replicas: 1,
    resources: resources('100m', '256Mi', '1Gi'),
    env: [metrics],
    metricsPort: METRICS_PORT,
  },
};

export class Programs extends Chart {
  constructor(scope: Construct, programs: readonly Program[]) {
    super(scope, 'programs', { namespace: SYSTEM_NAMESPACE });
    for (const program of programs) {
      this.#deployment(program, PARTS[program]);
      this.#budget(program);
      if (program !== 'operator') this.#service(program);
    }
  }

  #deployment(program: Program, parts: ProgramParts): void {
    const name = objectNameOf(program);
    const labels = labelsOf(name, program);
    const annotations = {
      'prometheus.io/scrape': 'true',
      'prometheus.io/port': String(parts.metricsPort),
      'prometheus.io/path': '/metrics',
    };
    add(this, 'Deployment', {
      metadata: { name, labels },
      spec: {
        replicas: parts.replicas,
        selector: { matchLabels: selectorOf(name) },
        strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
        template: {
          metadata: { labels, annotations },
          spec: {
            serviceAccountName: name,
            automountServiceAccountToken: true,
            enableServiceLinks: false,
            securityContext: podSecurity(USER),
            topologySpreadConstraints: spread(name),
            terminationGracePeriodSeconds: 30,
            containers: [container(program, parts)],
            volumes: [TMP.volume, { name: 'site', configMap: { name: SITE_CONFIG.name } }, ...(parts.volumes ?? [])],
          },
        },
      },
    });
  }

  #budget(program: Program): void {
    const name = objectNameOf(program);
    add(this, 'PodDisruptionBudget', {
      metadata: { name, labels: labelsOf(name, program) },
      spec: { maxUnavailable: 1, selector: { matchLabels: selectorOf(name) } },
    });
  }

  #service(program: Program): void {
    const name = objectNameOf(program);
    add(this, 'Service', {
      metadata: { name, labels: labelsOf(name, program) },
      spec: {
        selector: selectorOf(name),
        ports: [{ name: 'http', port: 80, targetPort: 'http', appProtocol: 'http' }],
      },
    });
  }
}

function container(program: Program, { resources, env, metricsPort, mounts = [] }: ProgramParts): V1Container {
  return {
    name: program,
    image: imageOf(program),
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
    startupProbe: { ...at('/healthz'), periodSeconds: 2, failureThreshold: 90 },
    livenessProbe: { ...at('/healthz'), periodSeconds: 10, failureThreshold: 3 },
    readinessProbe: { ...at('/readyz'), periodSeconds: 5, failureThreshold: 2 },
    resources,
    securityContext: containerSecurity,
    volumeMounts: [TMP.mount, { name: 'site', mountPath: SITE_FOLDER, readOnly: true }, ...mounts],
  };
}
