/**
 * Which of the kinds that not every cluster has this one serves, and lets the operator use. Asked once, at start: a CRD
 * or a right that comes later is seen by the next start.
 */
import type { Logger } from 'pino';
import { isNotFound, type KubeClient, KubeError } from '../../../runtime/kube.js';
import { type Kind, OPTIONAL_KINDS, pathOfKind } from './kinds.js';

interface Resources {
  resources: { kind: string }[];
}

export async function servedKinds(client: KubeClient, log: Logger): Promise<Kind[]> {
  const usable = await Promise.all(
    OPTIONAL_KINDS.map(async (kind) => (await isServed(client, kind)) && (await isAllowed(client, kind, log))),
  );
  return OPTIONAL_KINDS.filter((_, index) => usable[index]);
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

/** A site grants it by a component of the manifests. Without it a watch would be refused for ever. */
async function isAllowed(client: KubeClient, kind: Kind, log: Logger): Promise<boolean> {
  try {
    await client.get(pathOfKind(kind), { limit: '1' });
    return true;
  } catch (error) {
    if (!(error instanceof KubeError) || error.status !== 403) throw error;
    log.warn({ kind: kind.kind }, 'kind served, but the operator has no right to use it');
    return false;
  }
}
