/** The build that a project's status shows, of a site or an app. In: its Builds. Out: the build, and words for it. */
import { type Build, buildsInOrder, isBuildRunning, isSuspended } from '@slipway/crds';
import { type Context, ready, type StepOutcome } from '../controllers/project/context.js';

/** Returns the running build, or else the newest: the project's message shows the steps of a deploy. */
export function latestOf(builds: readonly Build[]): Build | undefined {
  const shown = buildsInOrder(builds).filter(({ status }) => !NOT_SHOWN.has(status?.phase ?? ''));
  return shown.find(isBuildRunning) ?? shown.at(-1);
}

/** A project whose build failed is in error while it serves nothing. Another build, or a change, may help. */
export async function deploymentOf({ deps, project, ref }: Context, latest: Build | undefined): Promise<StepOutcome> {
  if (latest?.status?.phase !== 'Failed' || isSuspended(project)) return ready;
  if ((await deps.capabilities.builds.liveBuild(ref)) !== undefined) return ready;
  return { state: 'failed', reason: 'BuildFailed', message: messageOfBuild(latest), retry: false };
}

/** Phases of Builds that do not change anything that is served, and are not in progress. */
const NOT_SHOWN = new Set(['Superseded', 'Cancelled']);

export function messageOfBuild({ status = {} }: Build): string {
  const { phase = 'Queued', message = '' } = status;
  return phase === 'Failed' || phase === 'Queued' ? `${phase}: ${message}` : phase;
}
