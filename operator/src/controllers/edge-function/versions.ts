/**
 * The versions of a function: each is an immutable ConfigMap that the EdgeFunction owns, and a target of rollbacks. A
 * version's name is the generation in which its code was new.
 */

import { API_VERSION, type EdgeFunction, FUNCTION_BUDGET } from '@slipway/crds';
import {
  functionVersionName,
  LABEL_FUNCTION,
  LABEL_FUNCTION_VERSION,
  LABEL_MANAGED_BY,
  LABEL_PART,
  MANAGED_BY,
  PART_FUNCTION_VERSION,
} from '@slipway/installation';
import { isConflict, isNotFound } from '@slipway/kubernetes';
import { BY_NAMESPACE, type ConfigMap, type FunctionReconcilerDeps } from './resources.js';

export interface Version {
  version: number;
  code: string;
}

/** Number of versions that are kept beside the served one. */
const KEPT = 10;

const mapsPath = ({ metadata }: EdgeFunction) => `/api/v1/namespaces/${metadata.namespace}/configmaps`;

export interface TooMuchCode {
  state: 'failed';
  reason: 'TooMuchCode';
  message: string;
}

/**
 * Returns all versions, the oldest first, with the code in the spec among them. If that code is too large, returns the
 * failure.
 */
export async function ensureVersions(
  { client }: FunctionReconcilerDeps,
  object: EdgeFunction,
  whyTooMuch: (bytesBefore: number) => string | undefined,
): Promise<Version[] | TooMuchCode> {
  const labelSelector = `${LABEL_FUNCTION}=${object.metadata.uid}`;
  const { items } = await client.get<{ items: ConfigMap[] }>(mapsPath(object), { labelSelector });
  const versions = items.map(versionOf).sort((a, b) => a.version - b.version);
  if (versions.at(-1)?.code === object.spec.code) return versions;
  const excess = whyTooMuch(Buffer.byteLength(versions.at(-1)?.code ?? ''));
  if (excess !== undefined) return { state: 'failed', reason: 'TooMuchCode', message: excess };
  const made = { version: object.metadata.generation ?? 1, code: object.spec.code };
  await client.create(mapsPath(object), mapOf(object, made)).catch((error) => {
    if (!isConflict(error)) throw error;
  });
  return [...versions, made];
}

/** Returns the version to serve. Undefined if none is requested, or the requested one was deleted. */
export function chosen(versions: readonly Version[], deployedGeneration: number | undefined): Version | undefined {
  if (deployedGeneration === undefined) return versions.at(-1);
  return versions.findLast(({ version }) => version <= deployedGeneration);
}

/**
 * Deletes the oldest versions: those beyond a number, and those beyond the function's share of the bytes that the
 * project's old versions may have.
 */
export async function pruneVersions(
  { client, functions }: FunctionReconcilerDeps,
  object: EdgeFunction,
  versions: readonly Version[],
  served: number | undefined,
): Promise<void> {
  const { oldVersionBytes, oldVersionBytesOfProject } = FUNCTION_BUDGET;
  const siblings = Math.max(1, functions.find(BY_NAMESPACE, object.metadata.namespace ?? '').length);
  const bytes = Math.min(oldVersionBytes, oldVersionBytesOfProject / siblings);
  const old = versions
    .slice(0, versions.length - newestThatFit(versions, bytes))
    .filter(({ version }) => version !== served);
  for (const { version } of old) {
    const path = `${mapsPath(object)}/${functionVersionName(object.metadata.name, version)}`;
    await client.delete(path).catch((error) => {
      if (!isNotFound(error)) throw error;
    });
  }
}

/** Returns how many of the newest versions are kept: at least one. */
function newestThatFit(versions: readonly Version[], bytes: number): number {
  let left = bytes;
  let count = 1;
  for (const { code } of versions.slice(0, -1).reverse()) {
    left -= Buffer.byteLength(code);
    if (left < 0 || count === KEPT) break;
    count += 1;
  }
  return Math.min(count, versions.length);
}

const versionOf = ({ metadata, data }: ConfigMap): Version => ({
  version: Number(metadata.labels?.[LABEL_FUNCTION_VERSION]),
  code: data?.code ?? '',
});

function mapOf({ metadata }: EdgeFunction, { version, code }: Version): ConfigMap {
  const uid = metadata.uid as string;
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: functionVersionName(metadata.name, version),
      labels: {
        [LABEL_MANAGED_BY]: MANAGED_BY,
        [LABEL_PART]: PART_FUNCTION_VERSION,
        [LABEL_FUNCTION]: uid,
        [LABEL_FUNCTION_VERSION]: String(version),
      },
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'EdgeFunction', name: metadata.name, uid }],
    },
    immutable: true,
    data: { code },
  };
}
