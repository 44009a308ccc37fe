/**
 * Decides when a repository is checked for pushes that no webhook delivered. In: a project and its builds. Out: the
 * check that is due: a Build of the newest commit, unless that commit is already built. Pure.
 */
import {
  type Build,
  type BuildSpec,
  buildsInOrder,
  isBuildFinished,
  isOfSite,
  isSuspended,
  numberOfBuild,
  type Project,
} from '@slipway/crds';
import { delayOf } from '@slipway/program';

export interface PushCheck {
  name: string;
  spec: BuildSpec;
  /** The time since the previous check. It grows with each check in a row that could not read the repository. */
  afterMs: number;
}

const LONGEST_MS = 24 * 60 * 60_000;

/** Undefined: no webhook of the project has delivered yet, or no check is due. */
export function pushCheckOf(project: Project, builds: readonly Build[], everyMs: number): PushCheck | undefined {
  const ofSite = buildsInOrder(builds.filter(isOfSite));
  const ref = project.metadata.name;
  const unless = ofSite.filter(isOfPush).findLast(({ status }) => status?.commit !== undefined)?.status?.commit;
  const hasWebhook = ofSite.some(({ spec: { trigger } }) => trigger === 'webhook' || trigger === 'poll');
  if (!hasWebhook || unless === undefined || isSuspended(project) || !project.spec.source?.repoUrl) return undefined;
  if (!ofSite.every(isBuildFinished)) return undefined;
  const number = Math.max(...builds.map((build) => numberOfBuild(build) ?? 0)) + 1;
  return {
    name: `build-${number}`,
    spec: { project: ref, trigger: 'poll', unless },
    afterMs: delayOf({ firstMs: everyMs, maxMs: LONGEST_MS, jitter: 0 }, failuresOf(ofSite) + 1),
  };
}

/**
 * True if the Build is of the newest commit of the production branch at its time, and not of a commit that somebody
 * chose.
 */
const isOfPush = ({ spec: { trigger, revision, deployment } }: Build) =>
  deployment === undefined && (trigger === 'webhook' || revision === undefined);

/** Returns the number of failed checks in a row at the end of the builds: checks that could not read the repository. */
function failuresOf(builds: readonly Build[]): number {
  const last = builds.findLastIndex(
    ({ spec, status }) => spec.trigger !== 'poll' || status?.phase !== 'Failed' || status.commit !== undefined,
  );
  return builds.length - 1 - last;
}
