/** A Secret with values that are generated once. The first caller generates them, and all others read them. */
import type { OwnerReference } from '@slipway/crds';
import { isConflict, isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';

interface Secret extends KubeObject {
  data?: Record<string, string>;
}

export interface KeptSecret {
  namespace: string;
  name: string;
  labels: Record<string, string>;
  /** The Secret is deleted with these objects. Default: none. */
  ownerReferences?: readonly OwnerReference[];
  /** Returns the values to add to `current`. Existing values are kept. */
  make(current: Record<string, string>): Record<string, string>;
}

/** Returns the values of the Secret as text. */
export async function generatedSecret(client: KubeClient, kept: KeptSecret): Promise<Record<string, string>> {
  const { namespace, name, labels, ownerReferences, make } = kept;
  const path = `/api/v1/namespaces/${namespace}/secrets`;
  const read = async () => filled(client, `${path}/${name}`, await client.get<Secret>(`${path}/${name}`), make);
  try {
    return await read();
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  const metadata = { name, namespace, labels, ...(ownerReferences && { ownerReferences }) };
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata, stringData: make({}) };
  try {
    return plainText(await client.create<Secret>(path, secret as unknown as Secret));
  } catch (error) {
    // Another caller created the Secret first.
    if (!isConflict(error)) throw error;
    return read();
  }
}

/** Adds the missing values. If two callers do so at once, the second patch conflicts, and that caller retries. */
async function filled(client: KubeClient, path: string, secret: Secret, make: KeptSecret['make']) {
  const current = plainText(secret);
  const missing = Object.entries(make(current)).filter(([key]) => !current[key]);
  if (missing.length === 0) return current;
  const { resourceVersion } = secret.metadata;
  const body = { metadata: { resourceVersion }, stringData: Object.fromEntries(missing) };
  return plainText(await client.patch<Secret>(path, body));
}

const plainText = ({ data = {} }: Secret) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
