/** Step that sets the finalizer, before anything is created that garbage collection can't delete. */
import { FINALIZER, type Project } from '@slipway/crds';
import { KubeError } from '@slipway/kubernetes';
import { addFinalizer, hasFinalizer } from '../../../runtime/finalizers.js';
import { type Context, ready, type StepOutcome } from '../context.js';
import { projectPath } from '../resources.js';
import { existed } from './database.js';

export async function ensureFinalizer(context: Context): Promise<StepOutcome> {
  const { deps, ref, project } = context;
  if (hasFinalizer(project, FINALIZER)) {
    if (!existed(project)) await mustBeThere(context);
    return ready;
  }
  const written = await addFinalizer(deps.client, projectPath(ref), project, FINALIZER);
  deps.projects.learn(written);
  context.project = written;
  return ready;
}

/**
 * Throws a conflict if the Project no longer exists. The cache may still have a deleted Project, and nobody would
 * remove a database that is made for it. An existing Project with the finalizer is not deleted before its removal here.
 */
async function mustBeThere({ deps, ref, project }: Context): Promise<void> {
  const { metadata } = await deps.client.get<Project>(projectPath(ref));
  if (metadata.uid === project.metadata.uid && !metadata.deletionTimestamp) return;
  throw new KubeError(409, 'Conflict', 'the Project was deleted since it was read', 'projects');
}
