/**
 * The objects of one deployed service: its Secret, Deployment and Service. In: the project, its plan's sizes, its
 * environment. Pure.
 */
import { createHmac } from 'node:crypto';
import { DEPLOYED_SERVICES, LABEL_PART, LABEL_PROJECT, type Site } from '@slipway/installation';
import type { Owner } from '../../../runtime/owner-reference.js';
import { INNER_SERVICE } from '../inner-service.js';
import { childOf, labelsOf } from '../objects.js';
import { restrictedContainer, restrictedPod } from '../restricted-pod.js';
import { ANNOTATION_IMAGE } from '../rollout/rollout.js';
import type { Environment } from './environment.js';
import { SURGE } from './pools.js';

export type ServiceName = keyof typeof DEPLOYED_SERVICES;

export interface ServiceRequest {
  owner: Owner;
  name: ServiceName;
  image: string;
  replicas: number;
  sizes: { cpu: string; memory: string };
  images: Site['images'];
  environment: Environment;
  /** The key of the Secret's digest that a Deployment shows: without the key nobody can guess values by the digest. */
  printKey: string;
}

/**
 * Annotation with the digest of the environment. A change of it replaces the pods, because they read their environment
 * only when they start.
 */
const ANNOTATION_ENVIRONMENT = 'slipway.dev/environment';
/** User id in upstream's images. */
const ACCOUNT = 1000;
/** Seconds until every proxy knows that a pod is being deleted. */
const LEAVE_SECONDS = 3;
const GRACE_SECONDS = 30;
const STALLED_SECONDS = 120;

export const environmentSecretOf = (name: ServiceName) => `${name}-environment`;

export function serviceObjects(request: ServiceRequest) {
  const { owner, name, environment } = request;
  const secret = childOf(owner, {
    apiVersion: 'v1',
    kind: 'Secret',
    name: environmentSecretOf(name),
    component: name,
    body: { type: 'Opaque', data: encoded(environment.secret) },
  });
  return [secret, service(request), deployment(request)];
}

function service({ owner, name }: ServiceRequest) {
  const { port } = DEPLOYED_SERVICES[name];
  const admin = { name: 'admin', port: DEPLOYED_SERVICES.rest.adminPort, targetPort: 'admin', protocol: 'TCP' };
  const http = { name: 'http', port, targetPort: 'http', protocol: 'TCP', appProtocol: 'http' };
  return childOf(owner, {
    apiVersion: 'v1',
    kind: 'Service',
    name: DEPLOYED_SERVICES[name].service,
    component: name,
    body: {
      spec: { ...INNER_SERVICE, selector: selectorOf(owner, name), ports: name === 'rest' ? [http, admin] : [http] },
    },
  });
}

function deployment(request: ServiceRequest) {
  const { owner, name, replicas, image } = request;
  return childOf(owner, {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    name,
    component: name,
    annotations: { [ANNOTATION_IMAGE]: image },
    body: {
      spec: {
        replicas,
        revisionHistoryLimit: 2,
        progressDeadlineSeconds: STALLED_SECONDS,
        strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: SURGE } },
        selector: { matchLabels: selectorOf(owner, name) },
        template: {
          metadata: {
            labels: labelsOf(owner.ref, name),
            annotations: { [ANNOTATION_ENVIRONMENT]: printOf(request) },
          },
          spec: podSpec(request),
        },
      },
    },
  });
}

const selectorOf = ({ ref }: Owner, name: ServiceName) => ({ [LABEL_PROJECT]: ref, [LABEL_PART]: name });

function podSpec({ name, image, images, sizes, environment }: ServiceRequest) {
  return {
    ...restrictedPod({ account: ACCOUNT, graceSeconds: GRACE_SECONDS, images }),
    containers: [
      {
        name,
        image,
        ...restrictedContainer(images),
        env: Object.entries(environment.open).map(([variable, value]) => ({ name: variable, value })),
        envFrom: [{ secretRef: { name: environmentSecretOf(name) } }],
        ports: portsOf(name),
        resources: { requests: { cpu: sizes.cpu, memory: sizes.memory }, limits: { memory: sizes.memory } },
        ...PROBES[name],
        lifecycle: { preStop: { sleep: { seconds: LEAVE_SECONDS } } },
        volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }],
      },
    ],
    volumes: [{ name: 'tmp', emptyDir: { sizeLimit: '16Mi' } }],
  };
}

function portsOf(name: ServiceName) {
  const http = { name: 'http', containerPort: DEPLOYED_SERVICES[name].port, protocol: 'TCP' };
  const admin = { name: 'admin', containerPort: DEPLOYED_SERVICES.rest.adminPort, protocol: 'TCP' };
  return name === 'rest' ? [http, admin] : [http];
}

/**
 * Returns the probes of a container. Until it has started they are frequent, so that it serves as soon as it can; then
 * they are rare.
 */
function probes(port: string, ready: string, live: string) {
  const get = (path: string) => ({ httpGet: { path, port, scheme: 'HTTP' }, timeoutSeconds: 3, successThreshold: 1 });
  return {
    startupProbe: { ...get(ready), periodSeconds: 1, failureThreshold: 120 },
    readinessProbe: { ...get(ready), periodSeconds: 5, failureThreshold: 3 },
    livenessProbe: { ...get(live), periodSeconds: 10, failureThreshold: 6 },
  };
}

const PROBES = {
  auth: probes('http', '/health', '/health'),
  rest: probes('admin', '/ready', '/live'),
} as const;

function printOf({ environment, printKey }: ServiceRequest): string {
  const entries = Object.entries(environment.secret).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHmac('sha256', printKey).update(JSON.stringify(entries)).digest('base64url').slice(0, 22);
}

const encoded = (values: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Buffer.from(value).toString('base64')]));
