/**
 * A Postgres cluster of one server as a StatefulSet of the official image. Pure. In: the request. Out: the objects to
 * apply, in order, and the outcome from their status. Used if CloudNativePG is not served.
 */

import type { DesiredObject } from '../children/children.js';
import type { Workload } from '../children/diagnosis.js';
import { fingerprint } from '../children/fingerprint.js';
import { INNER_SERVICE } from '../inner-service.js';
import { restrictedContainer, restrictedPod } from '../restricted-pod.js';
import { type ClusterRequest, superuserSecret, superuserSecretName } from './cluster.js';
import { accessRules, parametersOf, processMemory } from './parameters.js';
import { labelsOf, metadataOf, podSelector } from './place.js';
import { settingsMapName } from './settings-map.js';

/** Name of the superuser. It is not `postgres`, because that is the name of the group of owners in these databases. */
export const SUPERUSER = 'slipway';
/** User id of Postgres in the official image. */
const ACCOUNT = 999;
const PORT = 5432;
const SETTINGS_FOLDER = '/etc/slipway-postgres';
const DATA_FOLDER = '/var/lib/postgresql';
const RUN_FOLDER = '/var/run/postgresql';
/** The collector writes records to the file with the ending `.json`, and other output of the server to this one. */
const LOG_LINES = 'server.log';
const LOG_RECORDS = 'server.json';
/**
 * The server's logging collector joins the parts of each message and writes it as one line of JSON, to a named pipe.
 * Without it, long messages of two sessions interleave, and names of clients contain line breaks: text of a client
 * would look like a line of another project.
 */
const LOG_SETTINGS = {
  logging_collector: 'on',
  log_destination: 'jsonlog',
  log_directory: RUN_FOLDER,
  log_filename: LOG_LINES,
  log_rotation_age: '0',
  log_rotation_size: '0',
};
/** Seconds to end sessions and write a checkpoint. If this takes longer, the next start recovers from the log. */
const GRACE_SECONDS = 60;

export interface StatefulSet extends Workload {
  spec?: { replicas?: number; volumeClaimTemplates?: VolumeClaim[] };
}

interface VolumeClaim {
  metadata: { name: string };
  spec: { accessModes: string[]; resources: { requests: { storage: string } }; storageClassName?: string };
}

/** `live`: the existing StatefulSet, whose volume claims can't be changed. */
export function statefulSetObjects(request: ClusterRequest, live: StatefulSet | undefined): DesiredObject[] {
  const claim = claimOf(request, live?.spec?.volumeClaimTemplates?.[0]);
  const settings = settingsMap(request, claim.resources.requests.storage);
  return [superuserSecret(request, SUPERUSER), settings, service(request), statefulSet(request, claim, settings)];
}

function claimOf({ size, site }: ClusterRequest, made: VolumeClaim | undefined): VolumeClaim['spec'] {
  const storageClassName = made ? made.spec.storageClassName : site.storageClass;
  return {
    accessModes: ['ReadWriteOnce'],
    resources: { requests: { storage: made?.spec.resources.requests.storage ?? size.storage } },
    ...(storageClassName ? { storageClassName } : {}),
  };
}

function settingsMap({ place, size }: ClusterRequest, storage: string): DesiredObject {
  const parameters: Record<string, string> = {
    ...parametersOf({ memory: size.memory, storage, shared: !place.project }),
    listen_addresses: '*',
    hba_file: `${SETTINGS_FOLDER}/pg_hba.conf`,
    ...LOG_SETTINGS,
  };
  const lines = Object.entries(parameters).map(([name, value]) => `${name} = '${value}'\n`);
  const rules = ['local all all scram-sha-256', ...accessRules(SUPERUSER)].map((rule) => `${rule}\n`);
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: metadataOf(place, settingsMapName(place.name)),
    data: { 'postgresql.conf': lines.join(''), 'pg_hba.conf': rules.join('') },
  } as DesiredObject;
}

function service({ place }: ClusterRequest): DesiredObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: metadataOf(place, place.name),
    spec: {
      ...INNER_SERVICE,
      selector: podSelector(place),
      ports: [{ name: 'postgres', port: PORT, protocol: 'TCP', targetPort: PORT }],
    },
  } as DesiredObject;
}

function statefulSet(request: ClusterRequest, claim: VolumeClaim['spec'], settings: DesiredObject): DesiredObject {
  const { place, suspended } = request;
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: metadataOf(place, place.name),
    spec: {
      replicas: suspended ? 0 : 1,
      revisionHistoryLimit: 10,
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 0 } },
      // The default, set explicitly: a change of it must not delete the data of a suspended project.
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
      serviceName: place.name,
      selector: { matchLabels: podSelector(place) },
      template: {
        metadata: {
          labels: labelsOf(place),
          // Postgres reads most of its settings only at its start.
          annotations: { 'slipway.dev/settings': fingerprint(settings) },
        },
        spec: podSpec(request),
      },
      volumeClaimTemplates: [{ metadata: { name: 'data', labels: labelsOf(place) }, spec: claim }],
    },
  } as DesiredObject;
}

function podSpec({ place, size, site: { images } }: ClusterRequest) {
  const restricted = restrictedPod({ account: ACCOUNT, graceSeconds: GRACE_SECONDS, images });
  const most = processMemory({ memory: size.memory, shared: !place.project });
  return {
    ...restricted,
    // The files of a large volume are not checked at each start.
    securityContext: { ...restricted.securityContext, fsGroup: ACCOUNT, fsGroupChangePolicy: 'OnRootMismatch' },
    containers: [
      {
        name: 'postgres',
        image: images.postgres,
        ...restrictedContainer(images),
        command: ['sh', '-c', startScript(most), 'sh'],
        args: ['postgres', '-c', `config_file=${SETTINGS_FOLDER}/postgresql.conf`],
        env: environment(superuserSecretName(place)),
        ports: [{ name: 'postgres', containerPort: PORT, protocol: 'TCP' }],
        resources: { requests: { cpu: size.cpu, memory: size.memory }, limits: { memory: size.memory } },
        // There is no liveness probe: a server that recovers from a long log must not be restarted, and one that
        // crashes exits by itself.
        startupProbe: {
          exec: isReady,
          periodSeconds: 1,
          timeoutSeconds: 5,
          successThreshold: 1,
          failureThreshold: 600,
        },
        readinessProbe: {
          exec: isReady,
          periodSeconds: 10,
          timeoutSeconds: 5,
          successThreshold: 1,
          failureThreshold: 2,
        },
        // Independent of the image's stop signal: this mode ends sessions instead of waiting for them.
        lifecycle: { preStop: { exec: { command: ['pg_ctl', 'stop', '--mode=fast', '--no-wait'] } } },
        volumeMounts: [
          { name: 'data', mountPath: DATA_FOLDER },
          { name: 'settings', mountPath: SETTINGS_FOLDER, readOnly: true },
          { name: 'run', mountPath: RUN_FOLDER },
          { name: 'tmp', mountPath: '/tmp' },
          { name: 'shared-memory', mountPath: '/dev/shm' },
        ],
      },
    ],
    volumes: [
      { name: 'settings', configMap: { name: settingsMapName(place.name), defaultMode: 0o644 } },
      { name: 'run', emptyDir: {} },
      { name: 'tmp', emptyDir: {} },
      // Parallel queries share memory here. Without the volume a container has 64 MiB of it.
      { name: 'shared-memory', emptyDir: { medium: 'Memory' } },
    ],
  };
}

/**
 * Returns the script that limits the memory of each process and starts the server. Its log goes from the named pipes to
 * the container's output. Sessions would wait if nobody read a pipe, so a reader that ends is replaced. A reader also
 * opens the end for writing, so it does not end with a collector. The script outlives the server, because the last
 * lines are the reason why a server does not start.
 */
const startScript = (most: number): string =>
  [
    'set -e',
    `for log in ${RUN_FOLDER}/${LOG_LINES} ${RUN_FOLDER}/${LOG_RECORDS}; do`,
    '  [ -p $log ] || mkfifo -m 600 $log',
    '  while :; do cat <>$log >&2 || sleep 1; done &',
    'done',
    `(ulimit -d ${kibibytes(most)} && exec docker-entrypoint.sh "$@") &`,
    'server=$! status=1',
    "trap 'kill -TERM $server' TERM",
    "trap 'kill -INT $server' INT",
    '# A signal ends a wait early.',
    'while kill -0 $server 2>/dev/null; do wait $server && status=0 || status=$?; done',
    'sleep 1',
    'exit $status',
  ].join('\n');

const kibibytes = (bytes: number) => Math.floor(bytes / 1024);

const isReady = {
  command: ['pg_isready', '--quiet', '--host=127.0.0.1', `--username=${SUPERUSER}`, '--dbname=postgres'],
};

const environment = (secret: string) => [
  { name: 'POSTGRES_USER', value: SUPERUSER },
  { name: 'POSTGRES_PASSWORD', valueFrom: { secretKeyRef: { name: secret, key: 'password' } } },
  { name: 'POSTGRES_DB', value: 'postgres' },
  {
    name: 'POSTGRES_INITDB_ARGS',
    value: '--encoding=UTF8 --locale=C --locale-provider=builtin --builtin-locale=C.UTF-8',
  },
];

/** True if the server accepts connections or, if suspended, no server is left. */
export function isSettled(set: StatefulSet | undefined, suspended: boolean): boolean {
  const { replicas = 0, readyReplicas = 0 } = set?.status ?? {};
  return set !== undefined && (suspended ? replicas === 0 : readyReplicas > 0);
}
