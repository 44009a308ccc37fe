/** Which of the kinds that not every cluster has this one serves. Asked once, at start: a CRD that comes later is seen by the next start. */
import { isNotFound, type KubeClient } from '../../../runtime/kube.js';
import { type Kind, OPTIONAL_KINDS } from './kinds.js';

interface Resources {
  resources: { kind: string }[];
}

export async function servedKinds(client: KubeClient): Promise<Kind[]> {
  const served = await Promise.all(OPTIONAL_KINDS.map((kind) => isServed(client, kind)));
  return OPTIONAL_KINDS.filter((_, index) => served[index]);
}

async function isServed(client: KubeClient, { apiVersion, kind }: Kind): Promise<boolean> {
  try {
    const { resources } = await client.get<Resources>(`/apis/${apiVersion}`);
    return resources.some((resource) => resource.kind === kind);
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
