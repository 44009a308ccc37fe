/**
 * Helpers for tests on a real Kubernetes, which SLIPWAY_E2E_KUBECONFIG names: our custom resources, projects, and the
 * caches of an engine.
 */

import { customResourceDefinitions, type Plan, type Project, type Region } from '@slipway/crds';
import {
  DATA_NAMESPACE,
  LABEL_MANAGED_BY,
  LABEL_PROJECT,
  MANAGED_BY,
  namespaceOf,
  SYSTEM_NAMESPACE,
  sharedClusterOf,
} from '@slipway/installation';
import { Informer, isConflict, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import type { EngineProject } from '../../capabilities/index.js';
import { Metrics } from '../../runtime/metrics.js';
import { ownerReference } from '../../runtime/owner-reference.js';
import { deleteAndWait, silentLog } from '../../testing.js';
import { servedKinds } from './children/available-kinds.js';
import { Children } from './children/children.js';

export const clusterKubeconfig = process.env.SLIPWAY_E2E_KUBECONFIG;
/** The line that a test file prints if there is no cluster. */
export const SKIPPED = '# skipped: no cluster; SLIPWAY_E2E_KUBECONFIG names the kubeconfig of one';

const PROJECTS = '/apis/slipway.dev/v1alpha1/projects';
const NAMESPACES = '/api/v1/namespaces';

/**
 * Creates the object if it does not exist. If it is being deleted, as after an uninstallation, waits and creates it
 * again.
 */
export async function makeIfMissing(client: KubeClient, path: string, object: object): Promise<void> {
  const { name } = (object as KubeObject).metadata;
  await until(async () => {
    try {
      await client.create<object>(path, object);
      return true;
    } catch (error) {
      if (!isConflict(error)) throw error;
      const there = await client.get<KubeObject>(`${path}/${name}`).catch(() => undefined);
      return there !== undefined && there.metadata.deletionTimestamp === undefined;
    }
  }, `${path}/${name}`);
}

/** Creates the CRDs and the platform's namespaces. */
export async function prepareCluster(client: KubeClient): Promise<void> {
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  for (const definition of customResourceDefinitions) await makeIfMissing(client, definitions, definition);
  await until(() => client.get(PROJECTS).catch(() => undefined), 'the CRDs to be served');
  for (const name of [SYSTEM_NAMESPACE, DATA_NAMESPACE]) {
    await makeIfMissing(client, NAMESPACES, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }
}

/**
 * Creates a Project with its namespace, as the controller would. Its type is one that a running operator of this
 * cluster ignores.
 */
export async function newProject(
  client: KubeClient,
  ref: string,
  plan: Plan,
  region: Region = 'eu-central',
): Promise<EngineProject> {
  const owner = 'owner@example.com';
  const project = { apiVersion: 'slipway.dev/v1alpha1', kind: 'Project', metadata: { name: ref } };
  await makeIfMissing(client, PROJECTS, { ...project, spec: { owner, region, plan, type: 'app' } });
  const { uid } = (await client.get<Project>(`${PROJECTS}/${ref}`)).metadata;
  const labels = { [LABEL_PROJECT]: ref, [LABEL_MANAGED_BY]: MANAGED_BY };
  const ownerReferences = [ownerReference({ ref, uid: uid as string })];
  const metadata = { name: namespaceOf(ref), labels, ownerReferences };
  await makeIfMissing(client, NAMESPACES, { apiVersion: 'v1', kind: 'Namespace', metadata });
  const standing = { suspended: false, retain: false, placement: undefined };
  return { ref, uid: uid as string, owner, type: 'shared', region, plan, ...standing };
}

export async function removeProject(client: KubeClient, ref: string): Promise<void> {
  await deleteAndWait(client, `${NAMESPACES}/${namespaceOf(ref)}`);
  await deleteAndWait(client, `${PROJECTS}/${ref}`);
}

/** Deletes the Postgres that a region's projects share. */
export async function removeShared(client: KubeClient, region: Region): Promise<void> {
  const name = sharedClusterOf(region);
  const core = `/api/v1/namespaces/${DATA_NAMESPACE}`;
  await deleteAndWait(client, `/apis/apps/v1/namespaces/${DATA_NAMESPACE}/statefulsets/${name}`);
  await Promise.all(
    [`services/${name}`, `secrets/${name}-superuser`, `configmaps/${name}-settings`].map((path) =>
      deleteAndWait(client, `${core}/${path}`),
    ),
  );
  await deleteAndWait(client, `${core}/persistentvolumeclaims/data-${name}-0`);
}

/** Returns the caches that the operator has. */
export async function watchCluster(client: KubeClient) {
  const shared = { client, metrics: new Metrics(), log: silentLog };
  const labelled = { ...shared, labelSelector: LABEL_PROJECT };
  const namespaces = new Informer<KubeObject>({ ...labelled, resource: 'namespaces', path: NAMESPACES });
  const secrets = new Informer<KubeObject>({ ...labelled, resource: 'secrets', path: '/api/v1/secrets' });
  const children = new Children({ ...shared, namespaces, secrets, optional: await servedKinds(client, shared.log) });
  const informers = [namespaces, secrets, ...children.informers()];
  await Promise.all(informers.map((informer) => informer.start()));
  return { children, close: () => Promise.all(informers.map((informer) => informer.close())) };
}
