/** Writes a Secret of the project, only if it differs. Before that, it reads what another client has written. */

import { namespaceOf } from '@slipway/installation';
import { isConflict, isNotFound } from '@slipway/kubernetes';
import { mergePatch } from '../../runtime/merge-patch.js';
import type { Context } from './context.js';
import { isKept } from './generated-secrets.js';
import { ourLabels, plainText, type Secret, secretData, secretsPath } from './resources.js';

/** Values by key. Undefined: the Secret has no such key, or must have none. */
export type Values = Record<string, string | undefined>;

type Annotations = (values: Values) => Record<string, string>;

export interface EnsuredSecret {
  values: Values;
  /** The Secret before the change. Undefined: there was none. */
  before: Secret | undefined;
}

/**
 * Writes the content that `wanted` returns, given the current content, to the Secret `name`. A Secret that our cache
 * doesn't have yet is read from the server, so that generated values are never generated twice.
 */
export async function ensureSecret(
  context: Context,
  name: string,
  wanted: (stored: Values) => Values,
  annotations: Annotations = () => ({}),
): Promise<EnsuredSecret> {
  const cached = context.deps.secrets.get(name, namespaceOf(context.ref));
  if (cached) return await update(context, cached, wanted, annotations);
  const values = wanted({});
  try {
    await context.deps.client.create<Secret>(secretsPath(context.ref), {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, labels: ourLabels(context.ref), annotations: annotations(values) },
      type: 'Opaque',
      data: secretData(values),
    });
    return { values, before: undefined };
  } catch (error) {
    if (!isConflict(error)) throw error;
    return await update(context, (await readSecret(context, name)) as Secret, wanted, annotations);
  }
}

async function update(
  context: Context,
  stored: Secret,
  wanted: (stored: Values) => Values,
  annotations: Annotations,
): Promise<EnsuredSecret> {
  const { metadata, data = {} } = stored;
  const values = { ...plainText(stored), ...wanted(plainText(stored)) };
  const before = { metadata: { labels: metadata.labels ?? {}, annotations: metadata.annotations ?? {} }, data };
  const after = {
    metadata: {
      labels: { ...metadata.labels, ...ourLabels(context.ref) },
      annotations: { ...metadata.annotations, ...annotations(values) },
    },
    data: secretData(values),
  };
  const patch = mergePatch(before, after);
  if (!patch) return { values, before: stored };
  const versioned = { ...(patch.metadata as object), resourceVersion: metadata.resourceVersion };
  const path = `${secretsPath(context.ref)}/${metadata.name}`;
  context.deps.secrets.learn(await context.deps.client.patch<Secret>(path, { ...patch, metadata: versioned }));
  return { values, before: stored };
}

/**
 * Reads a Secret from the cache, or from the server if it has no label of ours or the cache does not keep its values.
 */
export async function readSecret({ deps, ref }: Context, name: string): Promise<Secret | undefined> {
  const cached = isKept(name) ? deps.secrets.get(name, namespaceOf(ref)) : undefined;
  if (cached) return cached;
  try {
    return await deps.client.get<Secret>(`${secretsPath(ref)}/${name}`);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
