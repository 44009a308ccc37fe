/** Reads the health and the used quotas of a project from its status. Pure. */
import { isSuspended } from '@slipway/crds';
import type { SeenProject } from '../kubernetes/project-cache.js';
import type { Observed, Quota, QuotaLevel } from './health.js';

const HAS_ROOM: readonly { quota: Quota; condition: string; full: string }[] = [
  { quota: 'database', condition: 'DatabaseHasRoom', full: 'DatabaseFull' },
  { quota: 'storage', condition: 'StorageHasRoom', full: 'StorageFull' },
  { quota: 'site', condition: 'SiteHasRoom', full: 'SiteFull' },
];

export function observedOf(project: SeenProject): Observed {
  const quotas: Partial<Record<Quota, QuotaLevel>> = {};
  for (const { quota, condition, full } of HAS_ROOM) {
    const found = conditionOf(project, condition);
    if (found?.status === 'False') quotas[quota] = found.reason === full ? 'exceeded' : 'warning';
  }
  return { health: healthOf(project), quotas };
}

function healthOf(project: SeenProject): Observed['health'] {
  const { phase } = project.status ?? {};
  if (isSuspended(project) || phase === 'suspended' || phase === 'deleting') return 'paused';
  if (phase === 'healthy') return 'healthy';
  return phase === 'error' ? 'failed' : 'provisioning';
}

export const conditionOf = ({ status }: SeenProject, type: string) =>
  status?.conditions?.find((condition) => condition.type === type);

/** Changes whenever `observedOf` does, or the time of the last change of `Ready`. */
export const fingerprintOf = (project: SeenProject): string =>
  JSON.stringify([observedOf(project), observedAt(project)?.getTime()]);

/** The time of the status, which orders observations of several replicas. Undefined: there is no status yet. */
export function observedAt(project: SeenProject): Date | undefined {
  const time = conditionOf(project, 'Ready')?.lastTransitionTime;
  return time === undefined ? undefined : new Date(time);
}
