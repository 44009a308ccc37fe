/**
 * The password of the role that reads changes: made once, kept in a Secret of the platform's namespace, where the data plane reads it
 * and no tenant does. In: the Kubernetes API. Called by the engine at its start.
 */
import { randomBytes } from 'node:crypto';
import { LABEL_MANAGED_BY, MANAGED_BY, REPLICATION_SECRET, SYSTEM_NAMESPACE } from '@slipway/crds';
import { isConflict, isNotFound, type KubeClient, type KubeObject } from '../../runtime/kube.js';

interface Secret extends KubeObject {
  data?: Record<string, string>;
}

const SECRETS_PATH = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets`;
const { name, password: key } = REPLICATION_SECRET;

export async function replicationPassword(client: KubeClient): Promise<string> {
  try {
    return passwordIn(await client.get<Secret>(`${SECRETS_PATH}/${name}`));
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  const metadata = { name, namespace: SYSTEM_NAMESPACE, labels: { [LABEL_MANAGED_BY]: MANAGED_BY } };
  const stringData = { [key]: randomBytes(24).toString('base64url') };
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata, stringData };
  try {
    return passwordIn(await client.create<Secret>(SECRETS_PATH, secret as unknown as Secret));
  } catch (error) {
    // Another operator was first.
    if (!isConflict(error)) throw error;
    return passwordIn(await client.get<Secret>(`${SECRETS_PATH}/${name}`));
  }
}

function passwordIn({ data = {} }: Secret): string {
  const password = Buffer.from(data[key] ?? '', 'base64').toString();
  if (password === '')
    throw new Error(`the Secret ${SYSTEM_NAMESPACE}/${name} has no ${key}: delete it, and it is made anew`);
  return password;
}
