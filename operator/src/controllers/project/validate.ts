/** Refuses what can't be provisioned here, before anything is made. */
import type { Project } from '@slipway/crds';
import type { Informer } from '../../runtime/informer.js';
import { type Context, ready, type StepOutcome } from './context.js';

/** Projects by owner and the name that the owner gave. */
export const BY_NAME = 'name';
export const nameKey = ({ metadata, spec }: Project) => `${spec.owner}/${spec.name ?? metadata.name}`;

/** A deletion is reported by the watch; this is for when it is not. */
const LOOK_AGAIN_MS = 5_000;

export async function validate({ project, deps }: Context): Promise<StepOutcome> {
  const type = project.spec.type ?? 'shared';
  if (type !== 'shared') {
    const message = `projects of type ${type} are not available on this installation; type shared is`;
    return { state: 'failed', reason: 'EngineUnavailable', message, retry: false };
  }
  const elder = elderOf(project, deps.projects);
  if (!elder) return ready;
  if (elder.metadata.deletionTimestamp) {
    const message = `waiting for the project ${elder.metadata.name}, which has the same name, to be deleted`;
    return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
  }
  const name = project.spec.name ?? project.metadata.name;
  const message = `${project.spec.owner} has a project named ${name} already (${elder.metadata.name}): choose another spec.name`;
  return { state: 'failed', reason: 'NameConflict', message, retry: false };
}

function elderOf(project: Project, projects: Informer<Project>): Project | undefined {
  return projects
    .find(BY_NAME, nameKey(project))
    .find((other) => other.metadata.name !== project.metadata.name && isElder(other, project));
}

/** Made within one second, their names decide, so that exactly one of two yields. */
function isElder(a: Project, b: Project): boolean {
  const [made, than] = [a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? ''];
  return made === than ? a.metadata.name < b.metadata.name : made < than;
}
