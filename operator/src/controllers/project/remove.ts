/**
 * The end of a project: its engine's part, then its namespace, then the finalizer. Each may find its work done already.
 */
import { FINALIZER, LABEL_PROJECT, namespaceOf, type Project } from '@slipway/crds';
import type { Outcome } from '../../runtime/controller.js';
import { unexpectedMessage } from '../../runtime/failures.js';
import { hasFinalizer, removeFinalizer } from '../../runtime/finalizers.js';
import { isNotFound } from '../../runtime/kube.js';
import { type Context, engineProject, isToBeRetained } from './context.js';
import { databaseClaim } from './database.js';
import { isRetained } from './namespace.js';
import { pollDelay } from './poll-delay.js';
import { type Namespace, namespacePath, projectPath } from './resources.js';
import { deletingStatus } from './status.js';

/** The watch tells when the namespace is gone; this is for when it doesn't, ever more seldom. */
const LOOK_AGAIN_MS = { least: 1_000, most: 30_000 };

export async function removeProject(context: Context): Promise<Outcome> {
  const { deps, ref } = context;
  if (!hasFinalizer(context.project, FINALIZER)) return { kind: 'done' };
  if (context.project.status?.phase !== 'deleting') await progress(context, beginningOf(context.project));
  const removed = await deps.engine.remove({ ...engineProject(context), ...(await databaseClaim(context)) });
  if (removed.state !== 'ready') {
    await progress(context, removed.message);
    return removed.state === 'failed'
      ? { kind: 'retry', why: removed.message }
      : { kind: 'again', afterMs: removed.lookAgainMs };
  }
  if (!(await namespaceIsGone(context))) {
    await progress(context, `waiting for the namespace ${namespaceOf(ref)} to go`);
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

/** The step's name for messages, logs and metrics. */
export const REMOVAL = 'removal';

export const reportRemovalFailure = (context: Context) => progress(context, unexpectedMessage(REMOVAL));

/** Told once: each look begins with it, though nothing of it may be left to do. */
const beginningOf = (project: Project) =>
  isToBeRetained(project) ? 'closing the database, which is retained' : 'removing the database';

async function progress(context: Context, message: string): Promise<void> {
  const { deps, project } = context;
  context.project = await deps.statuses.write(project, deletingStatus(project, message, deps.now()));
}

/** Asks the server: the cache may not have a namespace that was made a moment ago. */
async function namespaceIsGone({ deps, ref }: Context): Promise<boolean> {
  try {
    const namespace = await deps.client.get<Namespace>(namespacePath(ref));
    const { metadata } = namespace;
    // It keeps what is retained: of this project, or of one before whose owner is another.
    if (metadata.labels?.[LABEL_PROJECT] !== ref || isRetained(namespace)) return true;
    if (!metadata.deletionTimestamp) await deps.client.delete(namespacePath(ref));
    return false;
  } catch (error) {
    if (isNotFound(error)) return true;
    throw error;
  }
}
