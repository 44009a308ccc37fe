/** Writes a Secret of the project only where it differs, and reads what another wrote first. */
import { namespaceOf } from '@slipway/crds';
import { isConflict, isNotFound } from '../../runtime/kube.js';
import { mergePatch } from '../../runtime/merge-patch.js';
import type { Context } from './context.js';
import { ourLabels, plainText, type Secret, secretData, secretsPath } from './resources.js';

export type Values = Record<string, string>;

/**
 * Makes the Secret `name` hold what `wanted` says, given what it holds. A Secret that our cache doesn't have yet is read
 * from the server, so that values made once are never made twice.
 */
export async function ensureSecret(context: Context, name: string, wanted: (held: Values) => Values): Promise<Values> {
  const cached = context.world.secrets.get(name, namespaceOf(context.ref));
  if (cached) return await update(context, cached, wanted);
  const values = wanted({});
  try {
    await context.world.client.create<Secret>(secretsPath(context.ref), {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, labels: ourLabels(context.ref) },
      type: 'Opaque',
      data: secretData(values),
    });
    return values;
  } catch (error) {
    if (!isConflict(error)) throw error;
    return await update(context, (await readSecret(context, name)) as Secret, wanted);
  }
}

async function update(context: Context, held: Secret, wanted: (held: Values) => Values): Promise<Values> {
  const before = plainText(held);
  const values = { ...before, ...wanted(before) };
  const labels = { ...held.metadata.labels, ...ourLabels(context.ref) };
  const patch = mergePatch(
    { metadata: { labels: held.metadata.labels ?? {} }, data: held.data ?? {} },
    { metadata: { labels }, data: secretData(values) },
  );
  if (!patch) return values;
  const metadata = { ...(patch.metadata as object), resourceVersion: held.metadata.resourceVersion };
  const path = `${secretsPath(context.ref)}/${held.metadata.name}`;
  context.world.secrets.learn(await context.world.client.patch<Secret>(path, { ...patch, metadata }));
  return values;
}

/** From the cache, or from the server for one that lacks our label. */
export async function readSecret({ world, ref }: Context, name: string): Promise<Secret | undefined> {
  const cached = world.secrets.get(name, namespaceOf(ref));
  if (cached) return cached;
  try {
    return await world.client.get<Secret>(`${secretsPath(ref)}/${name}`);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
