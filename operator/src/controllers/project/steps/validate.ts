/** Step that rejects projects which can't be provisioned here, before anything is created. */

import { normalAddress, type Project, typeOf } from '@slipway/crds';
import { whyTypeUnavailable } from '@slipway/installation';
import type { Informer } from '@slipway/kubernetes';
import { type Context, ready, type StepOutcome } from '../context.js';

/** Index of projects by owner and by the name that the owner chose. */
export const BY_NAME = 'name';
export const nameKey = ({ metadata, spec }: Project) => `${normalAddress(spec.owner)}/${spec.name ?? metadata.name}`;

/** Milliseconds between checks. The watch reports deletions, so the checks only cover a lost event. */
const LOOK_AGAIN_MS = 5_000;

export async function validate({ project, deps }: Context): Promise<StepOutcome> {
  const unavailable = whyTypeUnavailable(typeOf(project), deps.places);
  if (unavailable)
    return { state: 'failed', reason: 'EngineUnavailable', message: unavailable, retry: false, terminal: true };
  const elder = elderOf(project, deps.projects);
  if (!elder) return ready;
  if (elder.metadata.deletionTimestamp) {
    const message = `waiting for the project ${elder.metadata.name}, which has the same name, to be deleted`;
    return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
  }
  const name = project.spec.name ?? project.metadata.name;
  const { owner } = project.spec;
  const message = `${owner} has a project named ${name} already (${elder.metadata.name}): choose another spec.name`;
  return { state: 'failed', reason: 'NameConflict', message, retry: false };
}

function elderOf(project: Project, projects: Informer<Project>): Project | undefined {
  return projects
    .find(BY_NAME, nameKey(project))
    .find((other) => other.metadata.name !== project.metadata.name && isElder(other, project));
}

/** True if `a` is older. Created within one second, their names decide, so that exactly one of two yields. */
function isElder(a: Project, b: Project): boolean {
  const [made, than] = [a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? ''];
  return made === than ? a.metadata.name < b.metadata.name : made < than;
}
