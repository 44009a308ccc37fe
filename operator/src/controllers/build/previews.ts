/**
 * Decides which previews of a project stay. In: the project and its builds. Out: the builds of previews that are ended
 * or whose output is removed, each with the reason. Pure. A preview is kept only as long as its build.
 */
import {
  ANNOTATION_REMOVE_PREVIEW,
  type Build,
  buildsInOrder,
  isBuildFinished,
  isBuildWaiting,
  isOfSite,
  type Project,
  previewBuildsOf,
} from '@slipway/crds';
import { PREVIEW_LIMITS, type PreviewLimits } from '@slipway/installation';
import type { Finding } from './status.js';

interface Why {
  reason: string;
  message: string;
}

export interface Removal {
  build: Build;
  finding: Finding;
}

export function removalsOf(project: Project, builds: readonly Build[]): Removal[] {
  const limits = PREVIEW_LIMITS[project.spec.plan ?? 'free'];
  const ofPreviews = buildsInOrder(builds.filter((build) => !isOfSite(build)));
  const removals = [...Map.groupBy(ofPreviews, branchOf)].flatMap(([branch, ofBranch]) =>
    ofOneBranch(ofBranch, whyNoPreview(project, branch)),
  );
  const removed = new Set(removals.map(({ build }) => build));
  const left = ofPreviews.filter((build) => !removed.has(build));
  return [...removals, ...beyondLimits(left, limits), ...beyondQueue(left, limits)];
}

/** Returns why the branch has no preview. Undefined: it has one. */
function whyNoPreview({ spec }: Project, branch: string): Why | undefined {
  if (spec.source?.previews !== true) {
    return { reason: 'PreviewsOff', message: 'previews are off: set spec.source.previews, then make another Build' };
  }
  if (branch !== (spec.source.productionBranch ?? 'main')) return undefined;
  return { reason: 'ProductionBranch', message: `${branch} is the production branch, which has no preview` };
}

/**
 * Returns the removals of one branch. `builds`: its builds of previews, the oldest first. `why`: the reason if the
 * branch may have no preview.
 */
function ofOneBranch(builds: readonly Build[], why: Why | undefined): Removal[] {
  if (why) {
    const failed = builds
      .filter(isBuildWaiting)
      .map((build) => ({ build, finding: { phase: 'Failed', ...why } as const }));
    return [
      ...failed,
      ...removed(
        builds.filter((build) => !isBuildWaiting(build)),
        why,
      ),
    ];
  }
  const last = builds.findLastIndex(({ metadata }) => metadata.annotations?.[ANNOTATION_REMOVE_PREVIEW] !== undefined);
  return removed(builds.slice(0, last + 1), { reason: 'Removed', message: 'the preview was removed' });
}

/**
 * Removes previews beyond the limits, the oldest first. All deployed builds of their branches are removed: otherwise an
 * older build would become the preview.
 */
function beyondLimits(builds: readonly Build[], { previews: most, totalBytes }: PreviewLimits): Removal[] {
  let [count, bytes] = [0, 0];
  const excess = new Set<string>();
  for (const build of previewBuildsOf(builds).toReversed()) {
    const own = build.status?.bytes ?? 0;
    if (count < most && bytes + own <= totalBytes) [count, bytes] = [count + 1, bytes + own];
    else excess.add(branchOf(build));
  }
  const limit = `a project may have ${most}, of ${totalBytes / 1024 ** 3} GiB together`;
  const message = `newer previews took its place: ${limit}`;
  const deployed = builds.filter((build) => excess.has(branchOf(build)) && build.status?.phase === 'Deployed');
  return removed(deployed, { reason: 'TooManyPreviews', message });
}

/**
 * Limits the waiting branches to the number of previews: previews of older builds would be removed after they are
 * built.
 */
function beyondQueue(builds: readonly Build[], { previews: most }: PreviewLimits): Removal[] {
  const newest = new Map(builds.filter(isBuildWaiting).map((build) => [branchOf(build), build]));
  const waiting = buildsInOrder([...newest.values()]);
  return waiting.slice(0, Math.max(0, waiting.length - most)).map((build) => {
    const message = `builds of previews of ${most} newer branches wait`;
    return { build, finding: { phase: 'Cancelled', reason: 'TooManyPreviews', message } };
  });
}

/** Builds that have ended without a deployment stay as they are. */
const removed = (builds: readonly Build[], why: Why): Removal[] =>
  builds
    .filter((build) => !isBuildFinished(build) || build.status?.phase === 'Deployed')
    .map((build) => ({ build, finding: { phase: 'Removed', ...why, ...endOf(build) } }));

/** The build ended when it was deployed, not when it was removed. */
const endOf = ({ status }: Build) => (status?.finishedAt === undefined ? {} : { at: new Date(status.finishedAt) });

const branchOf = ({ spec }: Build) => spec.preview as string;
