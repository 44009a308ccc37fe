/** The project's namespace: made and owned by the Project. One that is not marked as this project's is never touched. */
import { LABEL_PROJECT, namespaceOf, type Project } from '@slipway/crds';
import { isConflict } from '../../runtime/kube.js';
import { type Context, ready, type StepOutcome } from './context.js';
import { NAMESPACES, type Namespace, namespacePath, ourLabels, ownedBy } from './resources.js';

const LOOK_AGAIN_MS = 1_000;

export async function ensureNamespace(context: Context): Promise<StepOutcome> {
  const { project, ref, world } = context;
  const found = world.namespaces.get(namespaceOf(ref)) ?? (await create(context));
  const judgement = judge(found, project);
  if (judgement === 'ours') return ready;
  if (judgement === 'unowned') {
    const metadata = { ownerReferences: [ownedBy(project)], resourceVersion: found.metadata.resourceVersion };
    world.namespaces.learn(await world.client.patch(namespacePath(ref), { metadata }));
    return ready;
  }
  if (judgement === 'leaving') {
    const message = `waiting for the namespace ${namespaceOf(ref)} of an earlier project to go`;
    return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
  }
  const message =
    `the namespace ${namespaceOf(ref)} exists and is not this project's: delete it, ` +
    `or label it ${LABEL_PROJECT}=${ref} to let the project have it`;
  return { state: 'failed', reason: 'NamespaceTaken', message, retry: true };
}

/** What was made, or what was there before. */
async function create({ project, ref, world }: Context): Promise<Namespace> {
  const metadata = { name: namespaceOf(ref), labels: ourLabels(ref), ownerReferences: [ownedBy(project)] };
  try {
    return await world.client.create<Namespace>(NAMESPACES, { apiVersion: 'v1', kind: 'Namespace', metadata });
  } catch (error) {
    if (!isConflict(error)) throw error;
    return await world.client.get<Namespace>(namespacePath(ref));
  }
}

type Judgement = 'ours' | 'unowned' | 'leaving' | 'strange';

export function judge({ metadata }: Namespace, project: Project): Judgement {
  if (metadata.labels?.[LABEL_PROJECT] !== project.metadata.name) return 'strange';
  if (metadata.deletionTimestamp) return 'leaving';
  const owner = metadata.ownerReferences?.find(({ kind }) => kind === 'Project');
  if (!owner) return 'unowned';
  // Its owner is gone, and garbage collection is about to see it.
  return owner.uid === project.metadata.uid ? 'ours' : 'leaving';
}
