/**
 * Step of the project's namespace. The Project creates and owns it. A namespace without this project's label is never
 * changed. If the project's data is to be retained, the namespace has no owner, because a foreground deletion would
 * delete owned objects before the operator acts.
 */

import { normalAddress, type Project } from '@slipway/crds';
import { ANNOTATION_RETAINED_FOR, LABEL_PROJECT, LABEL_RETAINED, namespaceOf } from '@slipway/installation';
import { isConflict, isNotFound } from '@slipway/kubernetes';
import { ownerReference } from '../../../runtime/owner-reference.js';
import { type Context, isToBeRetained, ready, type StepOutcome } from '../context.js';
import { NAMESPACES, type Namespace, namespacePath, ourLabels } from '../resources.js';

const LOOK_AGAIN_MS = 1_000;

export async function ensureNamespace(context: Context): Promise<StepOutcome> {
  const { project, ref, deps } = context;
  const found = deps.namespaces.get(namespaceOf(ref)) ?? (await create(context));
  const judgement = judge(found, project);
  if (judgement === 'ours') return ready;
  if (judgement === 'unsettled') {
    await settle(context, found);
    return ready;
  }
  if (judgement === 'leaving') {
    const message = `waiting for the namespace ${namespaceOf(ref)} of an earlier project to be deleted`;
    return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
  }
  if (judgement === 'retained') {
    const message =
      `the namespace ${namespaceOf(ref)} keeps the data of an earlier project of this name for its owner: ` +
      'choose another metadata.name, or create the project with that owner in spec.owner';
    return { state: 'failed', reason: 'DatabaseRetained', message, retry: true };
  }
  const message =
    `the namespace ${namespaceOf(ref)} exists and is not this project's: delete it, ` +
    `or label it ${LABEL_PROJECT}=${ref} to give it to the project`;
  return { state: 'failed', reason: 'NamespaceTaken', message, retry: true };
}

/** Returns the namespace, created or existing. */
async function create({ project, ref, deps }: Context): Promise<Namespace> {
  const metadata = { name: namespaceOf(ref), labels: ourLabels(ref), ownerReferences: ownersOf(project) };
  try {
    return await deps.client.create<Namespace>(NAMESPACES, { apiVersion: 'v1', kind: 'Namespace', metadata });
  } catch (error) {
    if (!isConflict(error)) throw error;
    return await deps.client.get<Namespace>(namespacePath(ref));
  }
}

const ownersOf = (project: Project) => {
  const { name, uid } = project.metadata;
  return isToBeRetained(project) ? [] : [ownerReference({ ref: name, uid: uid as string })];
};

/**
 * Makes the namespace the Project's: its owner reference follows the deletion policy, and it is no longer marked as
 * retained.
 */
async function settle({ project, ref, deps }: Context, { metadata: { resourceVersion } }: Namespace): Promise<void> {
  const metadata = {
    ownerReferences: ownersOf(project),
    labels: { [LABEL_RETAINED]: null },
    annotations: { [ANNOTATION_RETAINED_FOR]: null },
    resourceVersion,
  };
  deps.namespaces.learn(await deps.client.patch(namespacePath(ref), { metadata }));
}

/** Retains the namespace and its content for a later project of the same name and owner. */
export async function retainNamespace({ project, ref, deps }: Context): Promise<void> {
  const namespace = await deps.client.get<Namespace>(namespacePath(ref)).catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
  if (!namespace || isRetained(namespace)) return;
  const { resourceVersion, labels, ownerReferences = [] } = namespace.metadata;
  // A namespace that retains an earlier project's data, or belongs to another project, must not change.
  const isAnothers = ownerReferences.some(({ kind, uid }) => kind === 'Project' && uid !== project.metadata.uid);
  if (labels?.[LABEL_PROJECT] !== ref || isAnothers) return;
  const marks = {
    labels: { [LABEL_RETAINED]: 'true' },
    annotations: { [ANNOTATION_RETAINED_FOR]: normalAddress(project.spec.owner) },
  };
  await deps.client.patch(namespacePath(ref), { metadata: { ...marks, ownerReferences: null, resourceVersion } });
}

export const isRetained = ({ metadata }: Namespace) => metadata.labels?.[LABEL_RETAINED] === 'true';

type Judgement = 'ours' | 'unsettled' | 'retained' | 'leaving' | 'strange';

function judge(namespace: Namespace, project: Project): Judgement {
  const { metadata } = namespace;
  if (metadata.labels?.[LABEL_PROJECT] !== project.metadata.name) return 'strange';
  if (metadata.deletionTimestamp) return 'leaving';
  if (isRetained(namespace)) {
    const owner = normalAddress(metadata.annotations?.[ANNOTATION_RETAINED_FOR] ?? '');
    return owner === normalAddress(project.spec.owner) ? 'unsettled' : 'retained';
  }
  const owner = metadata.ownerReferences?.find(({ kind }) => kind === 'Project');
  // Its owner is deleted, so garbage collection is about to delete it.
  if (owner && owner.uid !== project.metadata.uid) return 'leaving';
  return (owner === undefined) === isToBeRetained(project) ? 'ours' : 'unsettled';
}
