/**
 * Decides which build starts next. In: the waiting and the running builds of the whole installation. Out: the builds
 * that may start. Accounts take turns and have limits, so that an account with many projects delays other accounts by
 * only one build. A project runs at most one build of the site and one of a preview, and the site's build starts first.
 * Pure.
 */
import { type Build, isOfSite, isSuspended, normalAddress, type Project } from '@slipway/crds';
import { ACCOUNT_BUILD_LIMITS, refOfNamespace } from '@slipway/installation';

export interface Line {
  waiting: readonly Build[];
  running: readonly Build[];
  /** The number of builds that the installation runs at the same time. */
  atOnce: number;
  projectOf(ref: string): Project | undefined;
  /** Returns the time of the account's last start of a build, in milliseconds. 0: never. */
  lastStartOf(account: string): number;
  /** Returns the milliseconds of the account's builds today, including running ones. */
  usedBy(account: string): number;
}

/** The next build of a site, or of one of its previews. */
export interface Turn {
  ref: string;
  ofSite: boolean;
}

/** Returns the turns that may be taken now, in their order. */
export function nextInLine(line: Line): Turn[] {
  const { waiting, running, atOnce, projectOf, lastStartOf } = line;
  const places = atOnce - running.length;
  if (places <= 0) return [];
  const busy = new Set(running.map(laneOf));
  const waits = new Map<string, Turn & { project: Project; account: string; since: string }>();
  for (const build of waiting) {
    const { namespace = '', creationTimestamp = '' } = build.metadata;
    const ref = refOfNamespace(namespace);
    const project = ref === undefined ? undefined : projectOf(ref);
    const lane = laneOf(build);
    if (ref === undefined || !project || busy.has(lane) || !mayBuild(project)) continue;
    const before = waits.get(lane);
    // A newer build takes over the place of the build that it supersedes.
    if (before && before.since <= creationTimestamp) continue;
    const account = accountOf(project);
    if (hasUsedUp(line, project)) continue;
    waits.set(lane, { ref, ofSite: isOfSite(build), project, account, since: creationTimestamp });
  }
  const runs = runningByAccount(line);
  const rank = ({ account, ofSite, since }: { account: string; ofSite: boolean; since: string }) =>
    [runs.get(account) ?? 0, lastStartOf(account), ofSite ? 0 : 1, since] as const;
  const inOrder = [...waits.values()]
    .map((wait) => ({ wait, rank: rank(wait) }))
    .sort(({ rank: a }, { rank: b }) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3].localeCompare(b[3]))
    .map(({ wait }) => wait);
  const next: Turn[] = [];
  for (const { ref, ofSite, project, account } of inOrder) {
    const own = runs.get(account) ?? 0;
    if (next.length === places || own >= limitsOf(project).atOnce) continue;
    runs.set(account, own + 1);
    next.push({ ref, ofSite });
  }
  return next;
}

/** True if places are free, but none for the account. */
export const hasAllPlaces = (line: Line, project: Project): boolean =>
  line.atOnce > line.running.length &&
  (runningByAccount(line).get(accountOf(project)) ?? 0) >= limitsOf(project).atOnce;

/** True if the builds of the account have used its build time of the day. */
export const hasUsedUp = ({ usedBy }: Line, project: Project): boolean =>
  usedBy(accountOf(project)) >= limitsOf(project).millisecondsADay;

const limitsOf = ({ spec }: Project) => ACCOUNT_BUILD_LIMITS[spec.plan ?? 'free'];

function runningByAccount({ running, projectOf }: Line): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { metadata } of running) {
    const project = projectOf(refOfNamespace(metadata.namespace) ?? '');
    const account = project ? accountOf(project) : '';
    counts.set(account, (counts.get(account) ?? 0) + 1);
  }
  return counts;
}

/** Returns the lane of a build. One build of a lane runs at a time. */
const laneOf = (build: Build) => `${build.metadata.namespace} ${isOfSite(build)}`;

export const mayBuild = (project: Project) => !isSuspended(project) && !project.metadata.deletionTimestamp;

export const accountOf = ({ spec }: Project) => normalAddress(spec.owner);
