/**
 * Restarts the container of an app by increasing `spec.app.restart`, which the operator compares with the running
 * container. In: a project. Out: nothing once the number is written, or a 404, 409 or 503.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { isConflict } from '@slipway/kubernetes';
import { delayOf } from '@slipway/program';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { missing, retryLater } from '../http/problem.js';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { refuseDeleting } from '../projects/projects.service.js';

/** The largest number that the Project accepts. */
export const MOST_RESTARTS = 2_147_483_647;
/** Milliseconds for which a write is tried again, because others write the Project between the read and the write. */
const PATIENCE_MS = 3_000;
const BACKOFF = { firstMs: 2, maxMs: 50, jitter: 2 / 3 };

@Injectable()
export class AppRestarts {
  constructor(
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
    private readonly exclusive: ExclusiveWork,
  ) {}

  /** Each of several simultaneous requests increases the number once. */
  restart(id: number, project: SeenProject): Promise<void> {
    return this.exclusive.run('projectRestarts', id, () => this.increase(project));
  }

  /** The lock does not apply to kubectl, so the write also names the version that was read. */
  private async increase({ metadata: { name, uid } }: SeenProject): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    for (let attempt = 1; performance.now() < deadline; attempt += 1) {
      const current = await this.kubernetes.getProject(name);
      if (current?.metadata.uid !== uid) throw missing('project');
      refuseDeleting(current);
      const { resourceVersion } = current.metadata;
      const body = { metadata: { uid, resourceVersion }, spec: { app: { restart: after(current.spec.app?.restart) } } };
      const patched = await this.kubernetes.patchProject(name, body).catch((error: unknown) => {
        if (isConflict(error)) return undefined;
        throw error;
      });
      if (patched) return void this.cache.put(patched);
      await pause(delayOf(BACKOFF, attempt));
    }
    throw retryLater('unavailable', 'The project is changed by others at the same time. Try again.', 1);
  }
}

const after = (restart = 0) => (restart >= MOST_RESTARTS ? 0 : restart + 1);
