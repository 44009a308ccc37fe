/**
 * The password of the role that reads changes in the Postgres cluster at `host`. It is derived from a value that is
 * made once and kept in a Secret of the platform's namespace. The data plane can read that Secret, and no tenant can.
 * In: the Kubernetes API. Called by engines.
 */

import { randomBytes } from 'node:crypto';
import { LABEL_MANAGED_BY, MANAGED_BY, REPLICATION_SECRET, SYSTEM_NAMESPACE } from '@slipway/installation';
import type { KubeClient } from '@slipway/kubernetes';
import { replicationPasswordAt } from '@slipway/project-database';
import { generatedSecret } from '../../runtime/generated-secret.js';

const { name, password } = REPLICATION_SECRET;
const SECRET = {
  namespace: SYSTEM_NAMESPACE,
  name,
  labels: { [LABEL_MANAGED_BY]: MANAGED_BY },
  make: () => ({ [password]: randomBytes(24).toString('base64url') }),
};

export const replicationPassword = async (client: KubeClient, host: string): Promise<string> =>
  replicationPasswordAt(host, (await generatedSecret(client, SECRET))[password] as string);
