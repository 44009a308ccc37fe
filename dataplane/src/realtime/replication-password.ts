/**
 * The password of the role that reads changes, derived from the platform's Secret for each Postgres cluster: asked of
 * the Kubernetes API when a project's reading begins.
 */
import { CoreV1Api, type KubeConfig } from '@kubernetes/client-node';
import { REPLICATION_SECRET, SYSTEM_NAMESPACE } from '@slipway/crds';
import { replicationPasswordAt } from '@slipway/project-database';
import type { ReplicationLogin } from './changes/stream.js';

export function replicationPasswordFrom(kubeConfig: KubeConfig): ReplicationLogin {
  const api = kubeConfig.makeApiClient(CoreV1Api);
  const { name, password } = REPLICATION_SECRET;
  let known: string | undefined;
  return async (host) => {
    try {
      const { data = {} } = await api.readNamespacedSecret({ name, namespace: SYSTEM_NAMESPACE });
      known = Buffer.from(data[password] ?? '', 'base64').toString();
    } catch (error) {
      // The API may be away for a while; what was read before is still good.
      if (known === undefined) throw error;
    }
    return replicationPasswordAt(host, known);
  };
}
