/**
 * The Job of a build, and the Secret that its containers read: pure. In: an order, the site's settings, and the address
 * of the egress proxy. Out: objects of `slipway-builds`.
 *
 * Three containers run one after another over a volume. `clone` has the ticket for the git credentials. `build` is
 * Kaniko and runs the tenant's commands. `publish` has the token for the store of sites. Each container mounts only the
 * data that it needs, so `build` has no secret but the owner's variables. All run without a service account, and can
 * reach nothing but the egress proxy.
 */
import {
  ANNOTATION_BUILD,
  ANNOTATION_SITE,
  BUILDS_NAMESPACE,
  LABEL_BUILD_OF,
  projectUrlByHost,
  type Site,
} from '@slipway/installation';
import {
  type CloneOrder,
  CONTEXT,
  IMAGE,
  markOf,
  ORDER_FILE,
  type PublishOrder,
  WORKSPACE,
} from '@slipway/kaniko-build-wrapper';
import type { KubeObject } from '@slipway/kubernetes';
import type { BuildOrder } from '../../../capabilities/index.js';
import { outputLimitsOf } from '../../outputs.js';
import { restrictedContainer } from '../restricted-pod.js';

/** The settings of the site that builds need. */
export type BuildsSite = Pick<Site, 'builds' | 'images' | 'publicUrl' | 'projectsDomain'>;

export interface JobPlace {
  name: string;
  site: BuildsSite;
  /** `http://<address>:<port>`. Pods of builds have no name server, so the address is a number. */
  egressUrl: string;
  /** The store's token for this build. */
  publishToken: string;
  /** Certificate authorities (PEM) that the build trusts beside those of the system. */
  certificates: string | undefined;
  /** True if root in the pod is an unprivileged user of the node. */
  hasUserNamespaces: boolean;
}

export const CONTAINERS = ['clone', 'build', 'publish'] as const;
export type BuildContainer = (typeof CONTAINERS)[number];

/** User id of `node` in the images. */
const USER = 1000;
/** Seconds of a Job in addition to the build's own time: to pull images, and to exit. */
const GRACE_SECONDS = 300;
/**
 * Seconds after which Kubernetes deletes a finished Job. The operator deletes a Job as soon as its end is recorded, so
 * this is for a Job whose end is never recorded.
 */
const KEPT_SECONDS = 3600;
const ORDER_FOLDER = ORDER_FILE.replace(/\/[^/]+$/, '');
/**
 * Request for disk space: an explicit 0. Without it the request would be equal to the limit: a node would need that
 * much free disk, and some nodes report none.
 */
const DISK_REQUEST = '0';
/** Capabilities that containers have by default and Kaniko does not need. */
const DROPPED = ['AUDIT_WRITE', 'MKNOD', 'NET_BIND_SERVICE', 'NET_RAW'];

export function buildJob(order: BuildOrder, place: JobPlace): KubeObject {
  const { images } = place.site;
  const seconds = Math.ceil(order.limits.milliseconds / 1000) + GRACE_SECONDS;
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: metadataOf(order, place.name),
    spec: {
      backoffLimit: 0,
      completions: 1,
      parallelism: 1,
      activeDeadlineSeconds: seconds,
      ttlSecondsAfterFinished: KEPT_SECONDS,
      template: {
        metadata: { labels: labelsOf(order) },
        spec: {
          restartPolicy: 'Never',
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: 1,
          ...(place.hasUserNamespaces ? { hostUsers: false } : {}),
          // Only the egress proxy resolves names.
          dnsPolicy: 'None',
          dnsConfig: { nameservers: ['127.0.0.1'] },
          securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
          ...(images.pullSecrets.length > 0 ? { imagePullSecrets: images.pullSecrets.map((name) => ({ name })) } : {}),
          initContainers: [ours('clone', order, place), kaniko(order, place)],
          containers: [ours('publish', order, place)],
          volumes: [
            { name: 'workspace', emptyDir: { sizeLimit: String(order.limits.diskBytes) } },
            { name: 'tmp', emptyDir: { sizeLimit: String(order.limits.diskBytes) } },
            secretVolume('clone', place.name),
            secretVolume('publish', place.name),
          ],
        },
      },
    },
  } as KubeObject;
}

/** Returns the Secret of a build. Its Job owns it, so that both are deleted together. */
export function buildSecret(order: BuildOrder, place: JobPlace, jobUid: string): KubeObject {
  const data = { clone: cloneOrder(order, place), publish: publishOrder(order, place) };
  const owner = { apiVersion: 'batch/v1', kind: 'Job', name: place.name, uid: jobUid };
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { ...metadataOf(order, place.name), ownerReferences: [owner] },
    immutable: true,
    data: Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(JSON.stringify(value)).toString('base64')]),
    ),
  } as KubeObject;
}

/** Returns the flags, as Kaniko's README documents them. */
export const kanikoArguments = ({ kanikoArguments: more }: Site['builds']): string[] => [
  `--context=dir://${CONTEXT}`,
  `--dockerfile=${CONTEXT}/Dockerfile`,
  '--no-push',
  '--no-push-cache',
  `--oci-layout-path=${IMAGE}`,
  '--single-snapshot',
  '--log-format=text',
  '--log-timestamp=false',
  ...more,
];

const metadataOf = (order: BuildOrder, name: string) => ({
  name,
  namespace: BUILDS_NAMESPACE,
  labels: labelsOf(order),
  annotations: { [ANNOTATION_BUILD]: order.name, [ANNOTATION_SITE]: order.site },
});

const labelsOf = ({ ref }: BuildOrder) => ({
  [LABEL_BUILD_OF]: ref,
  'app.kubernetes.io/part-of': 'slipway',
});

function cloneOrder(
  { ref, name, site: served, repoUrl, revision, branch, unless, submodules, settings, env, ticket, limits }: BuildOrder,
  { site, egressUrl, certificates, name: job }: JobPlace,
): CloneOrder {
  const { builds } = site;
  return {
    ref,
    build: name,
    source: { repoUrl, revision, submodules, unless },
    settings,
    deployment: { BRANCH: branch, SITE_URL: projectUrlByHost(site, served) },
    env,
    ticket,
    egressUrl,
    nodeImage: builds.nodeImage,
    nodeTag: builds.nodeTag,
    certificates,
    processes: limits.processes,
    logBytes: limits.logBytes,
    mark: markOf(job),
  };
}

const publishOrder = (order: BuildOrder, { egressUrl, publishToken }: JobPlace): PublishOrder => ({
  ref: order.site,
  build: order.name,
  egressUrl,
  token: publishToken,
  limits: outputLimitsOf(order),
});

/** The volume of an order, which only one container mounts. */
const secretVolume = (key: 'clone' | 'publish', secretName: string) => ({
  name: `order-${key}`,
  secret: { secretName, defaultMode: 0o444, items: [{ key, path: 'order.json' }] },
});

const mounts = [
  { name: 'workspace', mountPath: WORKSPACE },
  { name: 'tmp', mountPath: '/tmp' },
];

const resources = ({ limits }: BuildOrder, { site: { builds } }: JobPlace) => ({
  requests: { cpu: builds.cpu, memory: builds.memory, 'ephemeral-storage': DISK_REQUEST },
  limits: { cpu: '2', memory: String(limits.memoryBytes), 'ephemeral-storage': String(limits.diskBytes) },
});

function ours(step: 'clone' | 'publish', order: BuildOrder, place: JobPlace) {
  const container = restrictedContainer(place.site.images);
  return {
    ...container,
    name: step,
    image: place.site.builds.image,
    args: [step],
    securityContext: { ...container.securityContext, runAsNonRoot: true, runAsUser: USER, runAsGroup: USER },
    resources: resources(order, place),
    volumeMounts: [...mounts, { name: `order-${step}`, mountPath: ORDER_FOLDER, readOnly: true }],
  };
}

/**
 * Returns Kaniko's container. It unpacks images over its own root folder. No pod security standard stricter than
 * `baseline` admits that.
 */
function kaniko(order: BuildOrder, place: JobPlace) {
  const { builds, images } = place.site;
  const proxy = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'];
  return {
    name: 'build',
    image: builds.kaniko,
    imagePullPolicy: images.pullPolicy,
    args: kanikoArguments(builds),
    env: proxy.map((name) => ({ name, value: place.egressUrl })),
    securityContext: {
      runAsUser: 0,
      runAsGroup: 0,
      privileged: false,
      allowPrivilegeEscalation: false,
      capabilities: { drop: DROPPED },
    },
    resources: resources(order, place),
    volumeMounts: [mounts[0]],
  };
}
