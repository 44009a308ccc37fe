/** Rejects requests that need a running project while its owner or an administrator has suspended it. */
import type { Project } from '@slipway/crds';
import { Problem } from '../http/problem.js';
import { isSuspended } from './project-view.js';

export function refuseSuspended(project: Project): void {
  if (!isSuspended(project)) return;
  throw new Problem(
    'project_suspended',
    `The project is suspended: its data stays, and nothing of it runs. Whoever runs the platform resumes it by spec.suspend: false of the Project ${project.metadata.name}.`,
  );
}
