/**
 * The project's namespace: made and owned by the Project. One that is not marked as this project's is never touched.
 * While its data is to be retained nobody owns it: a deletion in the foreground lets garbage collection take what is
 * owned before anyone here is asked.
 */
import { ANNOTATION_RETAINED_FOR, LABEL_PROJECT, LABEL_RETAINED, namespaceOf, type Project } from '@slipway/crds';
import { ownerReference } from '../../owner-reference.js';
import { isConflict } from '../../runtime/kube.js';
import { type Context, isToBeRetained, ready, type StepOutcome } from './context.js';
import { NAMESPACES, type Namespace, namespacePath, ourLabels } from './resources.js';

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
    const message = `waiting for the namespace ${namespaceOf(ref)} of an earlier project to go`;
    return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
  }
  if (judgement === 'retained') {
    const message =
      `the namespace ${namespaceOf(ref)} keeps the data of an earlier project of this name for its owner: ` +
      'choose another metadata.name, or let that owner have the project';
    return { state: 'failed', reason: 'DatabaseRetained', message, retry: true };
  }
  const message =
    `the namespace ${namespaceOf(ref)} exists and is not this project's: delete it, ` +
    `or label it ${LABEL_PROJECT}=${ref} to let the project have it`;
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
 * Makes it the Project's: one that was made for it, that kept its owner's data, or that is to outlive it from now on or
 * no more.
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

export const isRetained = ({ metadata }: Namespace) => metadata.labels?.[LABEL_RETAINED] === 'true';

type Judgement = 'ours' | 'unsettled' | 'retained' | 'leaving' | 'strange';

function judge(namespace: Namespace, project: Project): Judgement {
  const { metadata } = namespace;
  if (metadata.labels?.[LABEL_PROJECT] !== project.metadata.name) return 'strange';
  if (metadata.deletionTimestamp) return 'leaving';
  if (isRetained(namespace)) {
    return metadata.annotations?.[ANNOTATION_RETAINED_FOR] === project.spec.owner ? 'unsettled' : 'retained';
  }
  const owner = metadata.ownerReferences?.find(({ kind }) => kind === 'Project');
  // Its owner is gone, and garbage collection is about to see it.
  if (owner && owner.uid !== project.metadata.uid) return 'leaving';
  return (owner === undefined) === isToBeRetained(project) ? 'ours' : 'unsettled';
}
