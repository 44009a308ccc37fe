/**
 * Removes a project: the data of its type, then its namespace, then the finalizer. Each step may find that its work is
 * already done.
 */

import { FINALIZER, typeOf } from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf } from '@slipway/installation';
import { isNotFound } from '@slipway/kubernetes';
import type { Outcome } from '../../runtime/controller.js';
import { unexpectedMessage } from '../../runtime/failures.js';
import { hasFinalizer, removeFinalizer } from '../../runtime/finalizers.js';
import { type Context, ready } from './context.js';
import { pollDelay } from './poll-delay.js';
import type { ProjectType } from './project-type.js';
import { type Namespace, namespacePath, projectPath } from './resources.js';
import { deletingStatus } from './status.js';
import { isRetained } from './steps/namespace.js';

/**
 * Milliseconds between checks, with backoff. The watch reports the deletion of the namespace, so the checks only cover
 * a lost event.
 */
const LOOK_AGAIN_MS = { least: 1_000, most: 30_000 };

export async function removeProject(context: Context): Promise<Outcome> {
  const { deps, ref } = context;
  if (!hasFinalizer(context.project, FINALIZER)) return { kind: 'done' };
  const type = typeToRemove(context);
  if (context.project.status?.phase !== 'deleting') await progress(context, type.removing(context.project));
  const removed = await type.remove(context);
  if (removed.state !== 'ready') {
    await progress(context, removed.message);
    return removed.state === 'failed'
      ? { kind: 'retry', why: removed.message }
      : { kind: 'again', afterMs: removed.lookAgainMs };
  }
  if (!(await namespaceIsGone(context))) {
    await progress(context, `waiting for the namespace ${namespaceOf(ref)} to be deleted`);
    const { deletionTimestamp } = context.project.metadata;
    return { kind: 'again', afterMs: pollDelay(deletionTimestamp, deps.now(), LOOK_AGAIN_MS) };
  }
  try {
    deps.projects.learn(await removeFinalizer(deps.client, projectPath(ref), context.project, FINALIZER));
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  deps.log.info({ ref }, 'project removed');
  return { kind: 'done' };
}

/** The name of the step in messages, logs and metrics. */
export const REMOVAL = 'removal';

export const reportRemovalFailure = (context: Context) => progress(context, unexpectedMessage(REMOVAL));

/** Returns the project's type. Nothing was made of an unavailable type, so only its namespace is removed. */
const typeToRemove = ({ deps, project }: Context): Pick<ProjectType, 'remove' | 'removing'> =>
  deps.types[typeOf(project)] ?? { remove: async () => ready, removing: () => 'removing the namespace' };

async function progress(context: Context, message: string): Promise<void> {
  const { deps, project } = context;
  context.project = await deps.statuses.write(project, deletingStatus(project, message, deps.now()));
}

/**
 * Whether the namespace is deleted. Reads the server: the cache may not have a namespace that was created a moment ago.
 */
async function namespaceIsGone({ deps, ref }: Context): Promise<boolean> {
  try {
    const namespace = await deps.client.get<Namespace>(namespacePath(ref));
    const { metadata } = namespace;
    // The namespace stays for retained data: of this project, or of an earlier one with another owner.
    if (metadata.labels?.[LABEL_PROJECT] !== ref || isRetained(namespace)) return true;
    if (!metadata.deletionTimestamp) await deps.client.delete(namespacePath(ref));
    return false;
  } catch (error) {
    if (isNotFound(error)) return true;
    throw error;
  }
}
