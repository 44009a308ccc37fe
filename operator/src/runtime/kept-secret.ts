/** A Secret with values that are made once and never again: whoever runs first makes them, all others read them. */
import { isConflict, isNotFound, type KubeClient, type KubeObject } from './kube.js';

interface Secret extends KubeObject {
  data?: Record<string, string>;
}

export interface KeptSecret {
  namespace: string;
  name: string;
  labels: Record<string, string>;
  /** Called only where there is none yet. */
  make(): Record<string, string>;
}

/** Its values, as text. */
export async function keptSecret(client: KubeClient, kept: KeptSecret): Promise<Record<string, string>> {
  const { namespace, name, labels, make } = kept;
  const path = `/api/v1/namespaces/${namespace}/secrets`;
  const read = async () => plainText(await client.get<Secret>(`${path}/${name}`));
  try {
    return await read();
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace, labels }, stringData: make() };
  try {
    return plainText(await client.create<Secret>(path, secret as unknown as Secret));
  } catch (error) {
    // Another was first.
    if (!isConflict(error)) throw error;
    return read();
  }
}

/** The one value without which the Secret is of no use. */
export function valueIn(values: Record<string, string>, { namespace, name }: KeptSecret, key: string): string {
  const value = values[key];
  if (!value) throw new Error(`the Secret ${namespace}/${name} has no ${key}: delete it, and it is made anew`);
  return value;
}

const plainText = ({ data = {} }: Secret) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
