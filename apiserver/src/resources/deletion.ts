/** Deletion in two steps: an object is marked as deleted, and removed once it has no finalizer. */
import { type KubeObject, timestamp } from '../objects.js';
import type { Resource } from './resource.js';

export interface DeleteOptions {
  dryRun: boolean;
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan' | undefined;
  preconditions?: { uid?: string | undefined; resourceVersion?: string | undefined } | undefined;
}

export const FOREGROUND_FINALIZER = 'foregroundDeletion';
export const ORPHAN_FINALIZER = 'orphan';

export function markDeleted(resource: Resource, old: KubeObject, { propagationPolicy }: DeleteOptions): KubeObject {
  const metadata = { ...old.metadata };
  const finalizers = withPolicy(metadata.finalizers ?? [], propagationPolicy);
  if (finalizers.length > 0) metadata.finalizers = finalizers;
  else delete metadata.finalizers;
  if (!metadata.deletionTimestamp) {
    metadata.deletionTimestamp = timestamp(new Date());
    if (resource.storage !== 'namespaces') metadata.deletionGracePeriodSeconds = 0;
    if (metadata.generation) metadata.generation++;
  }
  if (resource.storage !== 'namespaces') return { ...old, metadata };
  return { ...old, metadata, status: { ...(old.status as object), phase: 'Terminating' } };
}

function withPolicy(finalizers: string[], policy: DeleteOptions['propagationPolicy']): string[] {
  if (!policy) return finalizers;
  const others = finalizers.filter((name) => name !== FOREGROUND_FINALIZER && name !== ORPHAN_FINALIZER);
  if (policy === 'Foreground') return [...others, FOREGROUND_FINALIZER];
  return policy === 'Orphan' ? [...others, ORPHAN_FINALIZER] : others;
}

/** True if a deleted object has no finalizer left. */
export function isReleased({ metadata, spec, kind, apiVersion }: KubeObject): boolean {
  if (!metadata.deletionTimestamp || (metadata.finalizers?.length ?? 0) > 0) return false;
  const isNamespace = kind === 'Namespace' && apiVersion === 'v1';
  return !isNamespace || ((spec as { finalizers?: string[] } | undefined)?.finalizers?.length ?? 0) === 0;
}
