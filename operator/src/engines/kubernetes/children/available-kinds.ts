/**
 * Finds the optional kinds that this cluster serves and the operator may use. It runs once, at the start: a CRD or a
 * right that is added later takes effect after the next start.
 */
import { isNotFound, type KubeClient, KubeError } from '@slipway/kubernetes';
import type { Logger } from 'pino';
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

/**
 * Whether the operator may list the kind. A site grants that by a component of the manifests. Without the right a watch
 * would fail for ever.
 */
async function isAllowed(client: KubeClient, kind: Kind, log: Logger): Promise<boolean> {
  try {
    await client.get(pathOfKind(kind), { limit: '1' });
    return true;
  } catch (error) {
    if (!(error instanceof KubeError) || error.status !== 403) throw error;
    log.warn({ kind: kind.kind }, 'kind not used: missing rights');
    return false;
  }
}
