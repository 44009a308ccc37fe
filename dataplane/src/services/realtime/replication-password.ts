/**
 * Password of the replication role, derived from the platform's Secret for each Postgres cluster. The Secret is read
 * from the Kubernetes API whenever a stream starts.
 */
import { REPLICATION_SECRET, SYSTEM_NAMESPACE } from '@slipway/installation';
import type { KubeClient } from '@slipway/kubernetes';
import { replicationPasswordAt } from '@slipway/project-database';
import type { ReplicationLogin } from './changes/stream.js';

export function replicationPasswordFrom(client: KubeClient): ReplicationLogin {
  const { name, password } = REPLICATION_SECRET;
  let known: string | undefined;
  return async (host) => {
    try {
      const path = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets/${name}`;
      const { data = {} } = await client.get<{ data?: Record<string, string> }>(path);
      known = Buffer.from(data[password] ?? '', 'base64').toString();
    } catch (error) {
      // The API may be unavailable for a while; the last read value stays valid.
      if (known === undefined) throw error;
    }
    return replicationPasswordAt(host, known);
  };
}
