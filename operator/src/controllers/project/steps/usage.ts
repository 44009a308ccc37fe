/**
 * Reports how much of its quotas a project uses: figures in its status, and a condition for each quota. The condition
 * is False from 80 % on. In: the measurements of its capabilities. Called by reconcile.
 */
import type { ProjectStatus } from '@slipway/crds';
import { SITE_BYTES } from '@slipway/installation';
import type { Usage } from '../../../capabilities/index.js';
import { isTrue } from '../../../runtime/conditions.js';
import { type Context, engineProject, ready, type StepOutcome } from '../context.js';
import type { Shown } from '../project-type.js';
import type { StepResult } from '../stages.js';

export const DATABASE_HAS_ROOM = 'DatabaseHasRoom';
const STORAGE_HAS_ROOM = 'StorageHasRoom';
export const SITE_HAS_ROOM = 'SiteHasRoom';
const NEARLY_FULL = 0.8;
const MB = 1e6;

export async function reportUsage(
  context: Context,
  { serviceRoleKey, shown }: { serviceRoleKey: string; shown: Shown },
): Promise<StepResult<undefined> | undefined> {
  const project = engineProject(context);
  // A project in provisioning has no data yet, and its owner waits for it.
  const isServing = isTrue(context.project.status?.conditions, 'Ready');
  if (!isServing || project.suspended) return undefined;
  const { databases, services } = context.deps.capabilities;
  const storage = await services.storageUsage(project, serviceRoleKey);
  const database = await databases.usage(project);
  // The usage is not known yet, or nothing is limited.
  if (!database && !storage) return undefined;
  shown.usage = {
    ...(database ? { database: inSteps(database) } : {}),
    ...(storage ? { storage: inSteps(storage) } : {}),
  } satisfies ProjectStatus['usage'];
  const parts = storage
    ? [
        {
          condition: STORAGE_HAS_ROOM,
          outcome: roomOf('Storage', 'The files in storage have', storage),
          advisory: true,
        },
      ]
    : [];
  return { outcome: database ? roomOf('Database', 'The database has', database) : undefined, parts };
}

/** Reports the disk that a site uses for its deployments, build caches and build logs. */
export async function reportSiteUsage(context: Context, shown: Shown): Promise<StepOutcome | undefined> {
  const used = await context.deps.capabilities.builds.diskBytes(context.ref);
  if (used === undefined) return undefined;
  const site = { used, limit: SITE_BYTES[engineProject(context).plan] };
  shown.usage = { site: inSteps(site) } satisfies ProjectStatus['usage'];
  const remedy = 'The next build clears the cache and former deployments if that is necessary.';
  return roomOf('Site', 'Deployments, build caches and build logs use', site, remedy);
}

/** Rounds up to a megabyte, so that not every look writes a status. */
const inSteps = ({ used, limit }: Usage) => ({ used: Math.ceil(used / MB) * MB, limit });

function roomOf(
  part: 'Database' | 'Storage' | 'Site',
  subject: string,
  { used, limit, shut }: Usage,
  remedy = 'Delete data, or use a larger plan.',
): StepOutcome {
  const share = used / limit;
  // The quota of the account may be used up before that of the plan.
  if (share < NEARLY_FULL && shut === undefined) return ready;
  const reason = `${part}${share < 1 && shut === undefined ? 'NearlyFull' : 'Full'}`;
  const [usedMb, limitMb] = [used, limit].map((bytes) => Math.round(bytes / MB));
  const message =
    `${subject} ${usedMb} MB of the ${limitMb} MB of the plan (${Math.floor(share * 100)} %). ` +
    `${remedy}${shut === undefined ? '' : ` ${shut}`}`;
  return { state: 'failed', reason, message, retry: false };
}
