/**
 * A Postgres cluster as CloudNativePG's `Cluster`. Pure. CloudNativePG does failover, upgrades and, if the site
 * configures them, backups. In: the request. Out: the objects to apply, in order, and the outcome from the Cluster's
 * status. The fields are those in its API reference of v1.
 */

import { GROUP } from '@slipway/crds';
import type { KubeObject } from '@slipway/kubernetes';
import type { EngineOutcome } from '../../../capabilities/index.js';
import type { DesiredObject } from '../children/children.js';
import { type ClusterRequest, superuserSecret, superuserSecretName } from './cluster.js';
import { accessRules, parametersOf } from './parameters.js';
import { labelsOf, metadataOfKept, type Place } from './place.js';

/** Name of CloudNativePG's superuser. */
export const SUPERUSER = 'postgres';
const METRICS_PORT = 9187;
/**
 * Milliseconds between checks. The watch of Clusters reports changes, so the checks only cover state that it does not
 * report.
 */
const LOOK_AGAIN_MS = 2_000;

/** Returns our own labels, without the recommended ones: CloudNativePG sets these itself. */
const ourLabels = (place: Place) =>
  Object.fromEntries(Object.entries(labelsOf(place)).filter(([label]) => label.startsWith(`${GROUP}/`)));

export interface CloudNativePgCluster extends KubeObject {
  spec?: { storage?: { size?: string } };
  status?: { phase?: string; phaseReason?: string; readyInstances?: number; instances?: number };
}

export function cloudNativePgObjects(request: ClusterRequest, live: CloudNativePgCluster | undefined): DesiredObject[] {
  const { place, size, site, suspended } = request;
  const storage = live?.spec?.storage?.size ?? size.storage;
  const cluster = {
    apiVersion: 'postgresql.cnpg.io/v1',
    kind: 'Cluster',
    metadata: {
      ...metadataOfKept(place, place.name),
      annotations: { 'cnpg.io/hibernation': suspended ? 'on' : 'off' },
    },
    spec: {
      instances: size.instances,
      imageName: site.images.cloudNativePg,
      imagePullPolicy: site.images.pullPolicy,
      ...(site.images.pullSecrets.length > 0
        ? { imagePullSecrets: site.images.pullSecrets.map((name) => ({ name })) }
        : {}),
      inheritedMetadata: {
        labels: ourLabels(place),
        annotations: { 'prometheus.io/scrape': 'true', 'prometheus.io/port': String(METRICS_PORT) },
      },
      bootstrap: {
        initdb: {
          database: 'app',
          owner: 'app',
          encoding: 'UTF8',
          localeCollate: 'C',
          localeCType: 'C',
          localeProvider: 'builtin',
          builtinLocale: 'C.UTF-8',
        },
      },
      enableSuperuserAccess: true,
      superuserSecret: { name: superuserSecretName(place) },
      storage: { size: storage, ...(site.storageClass ? { storageClass: site.storageClass } : {}) },
      resources: { requests: { cpu: size.cpu, memory: size.memory }, limits: { memory: size.memory } },
      postgresql: {
        parameters: parametersOf({ memory: size.memory, storage, shared: !place.project }),
        pg_hba: accessRules(SUPERUSER),
      },
      // The standard queries run in every database as a superuser. No superuser may enter tenants' databases.
      monitoring: { disableDefaultQueries: true },
      // The same address as without CloudNativePG, whichever server is the primary.
      managed: {
        services: {
          disabledDefaultServices: ['ro', 'r'],
          additional: [{ selectorType: 'rw', serviceTemplate: { metadata: { name: place.name } } }],
        },
      },
    },
  };
  return [superuserSecret(request, SUPERUSER), cluster as DesiredObject];
}

export function outcomeOfCloudNativePg(cluster: CloudNativePgCluster | undefined, suspended: boolean): EngineOutcome {
  const { phase, phaseReason, readyInstances = 0 } = cluster?.status ?? {};
  if (cluster && (suspended ? readyInstances === 0 : readyInstances > 0)) return { state: 'ready', value: undefined };
  const words = [phase, phaseReason].filter(Boolean).join(': ') || 'CloudNativePG has not reported a status yet';
  return { state: 'progressing', message: `waiting for Postgres: ${words}`, lookAgainMs: LOOK_AGAIN_MS };
}
