/** A Secret with values that are made once and never again: whoever runs first makes them, all others read them. */
import { isConflict, isNotFound, type KubeClient, type KubeObject } from './kube.js';

interface Secret extends KubeObject {
  data?: Record<string, string>;
}

export interface KeptSecret {
  namespace: string;
  name: string;
  labels: Record<string, string>;
  /** Returns the values to add to the current ones; existing values are kept. */
  make(held: Record<string, string>): Record<string, string>;
}

/** Its values, as text. */
export async function generatedSecret(client: KubeClient, kept: KeptSecret): Promise<Record<string, string>> {
  const { namespace, name, labels, make } = kept;
  const path = `/api/v1/namespaces/${namespace}/secrets`;
  const read = async () => filled(client, `${path}/${name}`, await client.get<Secret>(`${path}/${name}`), make);
  try {
    return await read();
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace, labels }, stringData: make({}) };
  try {
    return plainText(await client.create<Secret>(path, secret as unknown as Secret));
  } catch (error) {
    // Another was first.
    if (!isConflict(error)) throw error;
    return read();
  }
}

/** With what it lacks. Two at a time can't both add: the second is refused, and comes again. */
async function filled(client: KubeClient, path: string, secret: Secret, make: KeptSecret['make']) {
  const held = plainText(secret);
  const missing = Object.entries(make(held)).filter(([key]) => !held[key]);
  if (missing.length === 0) return held;
  const { resourceVersion } = secret.metadata;
  const body = { metadata: { resourceVersion }, stringData: Object.fromEntries(missing) };
  return plainText(await client.patch<Secret>(path, body));
}

const plainText = ({ data = {} }: Secret) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
