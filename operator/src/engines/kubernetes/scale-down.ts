/**
 * Stops the pods of a project that is being removed, before its namespace is deleted. Kubernetes first checks a deleted
 * namespace after 5 s. If a pod is left, Kubernetes checks again only after half of the pod's grace period, which may
 * be 31 s. Called by the parts that have workloads there.
 */
import { isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import { allDone } from '../../runtime/all-done.js';
import type { Children } from './children/children.js';
import { KINDS, type Kind, pathOf } from './children/kinds.js';

interface Workload extends KubeObject {
  spec?: { replicas?: number };
}

/** Scales the workloads of the project to 0. The pods of another project under the same name stay. */
export async function scaleDown(
  client: KubeClient,
  children: Children,
  { ref, uid }: { ref: string; uid: string },
  workloads: 'Deployment' | 'StatefulSet',
): Promise<void> {
  const kind = KINDS.find((known) => known.kind === workloads) as Kind;
  const patches = children
    .list<Workload>(workloads, ref)
    .filter(({ metadata, spec }) => spec?.replicas !== 0 && isOwnedBy(metadata, uid))
    .map(({ metadata: { name, namespace } }) => toZero(client, pathOf(kind, name, namespace)));
  await allDone(patches);
}

const isOwnedBy = ({ ownerReferences = [], deletionTimestamp }: KubeObject['metadata'], uid: string) =>
  deletionTimestamp === undefined && ownerReferences.some((owner) => owner.kind === 'Project' && owner.uid === uid);

async function toZero(client: KubeClient, path: string): Promise<void> {
  try {
    await client.patch(path, { spec: { replicas: 0 } });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
