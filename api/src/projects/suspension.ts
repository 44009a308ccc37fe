/** Rejects requests that need a running project while it is suspended. */
import { isSuspended, type Project } from '@slipway/crds';
import { Problem } from '../http/problem.js';

export function refuseSuspended(project: Project): void {
  if (!isSuspended(project)) return;
  const state = 'The project is suspended: its data is retained, and none of its services run.';
  throw new Problem('project_suspended', `${state} ${project.spec.suspend ? byPlatform(project) : BY_OWNER}`);
}

/** Rejects a resumption by the owner while the platform's suspension applies. */
export function refuseResumption(project: Project): void {
  if (!project.spec.suspend) return;
  throw new Problem('project_suspended', byPlatform(project), {
    errors: [{ field: 'suspended', message: 'an administrator of the platform, or kubectl, suspended the project' }],
  });
}

const BY_OWNER = 'Its owner suspended it, and resumes it by PATCH /projects/{id} with {"suspended": false}.';

const byPlatform = ({ metadata: { name } }: Project) =>
  'An administrator of the platform, or kubectl, suspended it, and its owner cannot resume it. ' +
  `An administrator resumes it by PATCH /admin/projects/${name} with {"suspended": false}, ` +
  'kubectl by spec.suspend: false.';
