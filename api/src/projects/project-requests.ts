/**
 * Writes requests to the operator into the spec of a Project: numbers, such as that of a restart, and the wanted
 * snapshots. In: a project, and the change of its spec. Out: the Project as written, or a 404, 409 or 503.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { Project, ProjectSpec } from '@slipway/crds';
import { isConflict } from '@slipway/kubernetes';
import { delayOf } from '@slipway/program';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { missing, retryLater } from '../http/problem.js';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { refuseDeleting } from './projects.service.js';

/** Milliseconds for which a write is tried again, because others write the Project between the read and the write. */
const PATIENCE_MS = 3_000;
const BACKOFF = { firstMs: 2, maxMs: 50, jitter: 2 / 3 };

/** A JSON merge patch of a spec: null removes a member. */
export type SpecPatch = MergePatch<Pick<ProjectSpec, 'machine' | 'app'>>;
type MergePatch<T> = T extends object ? { [K in keyof T]?: MergePatch<T[K]> | null } : T;

@Injectable()
export class ProjectRequests {
  constructor(
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
    private readonly exclusive: ExclusiveWork,
  ) {}

  /**
   * Writes once for each of several simultaneous requests. `next` gets the Project as it is now. It returns a merge
   * patch of the spec, or undefined if nothing is to be written. It may throw a Problem.
   */
  write(id: number, project: SeenProject, next: (current: Project) => SpecPatch | undefined): Promise<SeenProject> {
    return this.exclusive.run('projectNumbers', id, () => this.attempt(project, next));
  }

  /** The lock does not apply to kubectl, so the write also names the version that was read. */
  private async attempt(
    { metadata: { name, uid } }: SeenProject,
    next: (current: Project) => SpecPatch | undefined,
  ): Promise<SeenProject> {
    const deadline = performance.now() + PATIENCE_MS;
    for (let attempt = 1; performance.now() < deadline; attempt += 1) {
      const current = await this.kubernetes.getProject(name);
      if (current?.metadata.uid !== uid) throw missing('project');
      refuseDeleting(current);
      const { resourceVersion } = current.metadata;
      const spec = next(current);
      if (!spec) return this.cache.put(current);
      const body = { metadata: { uid, resourceVersion }, spec };
      const patched = await this.kubernetes.patchProject(name, body).catch((error: unknown) => {
        if (isConflict(error)) return undefined;
        throw error;
      });
      if (patched) {
        this.cache.put(patched);
        return patched as SeenProject;
      }
      await pause(delayOf(BACKOFF, attempt));
    }
    throw retryLater('unavailable', 'The project is changed by others at the same time. Try again.', 1);
  }
}
