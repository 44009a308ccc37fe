/** Writes the status where it differs, and tells of transitions by Events. */
import type { Project, ProjectStatus } from '@slipway/crds';
import { mergePatch } from '../../runtime/merge-patch.js';
import type { Context } from './context.js';
import { projectPath } from './resources.js';

export async function writeStatus(context: Context, status: ProjectStatus): Promise<void> {
  const { project, world, ref } = context;
  const patch = mergePatch(project.status ?? {}, status);
  if (!patch) return;
  // With the uid, so that a project made anew under the same name is not given the state of the one before.
  const body = { metadata: { uid: project.metadata.uid }, status: patch };
  const written = await world.client.patch<Project>(`${projectPath(ref)}/status`, body);
  world.projects.learn(written);
  announce(context, status);
  context.project = written;
}

function announce({ project, world }: Context, status: ProjectStatus): void {
  const [before, after] = [readyOf(project.status), readyOf(status)];
  if (!after || (before?.reason === after.reason && before.message === after.message)) return;
  const type = status.phase === 'error' ? 'Warning' : 'Normal';
  world.events.record(project, type, after.reason, after.message);
}

const readyOf = (status: ProjectStatus | undefined) => status?.conditions?.find(({ type }) => type === 'Ready');
