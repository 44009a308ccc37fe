/**
 * The password of the role that reads changes: made once, kept in a Secret of the platform's namespace, where the data plane reads it
 * and no tenant does. In: the Kubernetes API. Called by the engine at its start.
 */
import { randomBytes } from 'node:crypto';
import { LABEL_MANAGED_BY, MANAGED_BY, REPLICATION_SECRET, SYSTEM_NAMESPACE } from '@slipway/crds';
import { keptSecret } from '../../runtime/kept-secret.js';
import type { KubeClient } from '../../runtime/kube.js';

const { name, password } = REPLICATION_SECRET;
const SECRET = {
  namespace: SYSTEM_NAMESPACE,
  name,
  labels: { [LABEL_MANAGED_BY]: MANAGED_BY },
  make: () => ({ [password]: randomBytes(24).toString('base64url') }),
};

export const replicationPassword = async (client: KubeClient): Promise<string> =>
  (await keptSecret(client, SECRET))[password] as string;
