/**
 * Keeps ids and Projects in step, whatever died in between: a Project without an id (kubectl applied it) gets one, an id
 * whose Project is gone goes too, and a creation that was never acknowledged is finished or taken back. It looks at what
 * is, not at what changed: run at start, whenever a Project comes or goes, and every half minute.
 */
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { SECRETS } from '@slipway/crds';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { LOG } from '../platform.js';
import { nameOf, ownerOf } from './project-view.js';
import { type ProjectRow, ProjectsRepository } from './projects.repository.js';

const EVERY_MS = 30_000;
/** A creation over REST that is older than this many seconds is not under way any more. */
const ABANDONED_AFTER = 120;

@Injectable()
export class ProjectIds implements OnApplicationBootstrap, OnApplicationShutdown {
  private running: Promise<void> | undefined;
  private again = false;
  private closed = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly rows: ProjectsRepository,
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    this.cache.onMembership(() => void this.reconcile());
    this.timer = setInterval(() => void this.reconcile(), EVERY_MS);
    await this.reconcile();
  }

  async onApplicationShutdown(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    await this.running;
  }

  /** The id of each of `projects`, by ref. */
  async of(projects: SeenProject[]): Promise<Map<string, number>> {
    const refs = projects.map(({ metadata }) => metadata.name);
    const ids = await this.rows.idsOf(refs);
    if (ids.size === refs.length) return ids;
    await this.reconcile();
    return this.rows.idsOf(refs);
  }

  /** Resolves when a look that began after this call has ended. */
  async reconcile(): Promise<void> {
    if (this.closed) return;
    this.again = true;
    this.running ??= this.look().finally(() => {
      this.running = undefined;
    });
    await this.running;
  }

  private async look(): Promise<void> {
    while (this.again && !this.closed) {
      this.again = false;
      try {
        await this.once();
      } catch (error) {
        this.log.error({ err: error }, 'ids and Projects could not be brought in step; the next look tries again');
      }
    }
  }

  private async once(): Promise<void> {
    const rows = await this.rows.all();
    const byRef = new Map(rows.map((row) => [row.ref, row]));
    for (const project of [...this.cache.all()]) {
      if (byRef.get(project.metadata.name)?.uid !== project.metadata.uid) await this.adopt(project);
    }
    for (const row of rows) {
      const project = this.cache.get(row.ref);
      if (!project) await this.dropIfGone(row);
      else if (!row.complete && row.age > ABANDONED_AFTER) await this.settle(row, project);
    }
  }

  private adopt(project: SeenProject): Promise<void> {
    return this.rows.adopt(project.metadata.name, project.metadata.uid, ownerOf(project), nameOf(project));
  }

  private async dropIfGone(row: ProjectRow): Promise<void> {
    if (row.uid === null && row.age < ABANDONED_AFTER) return;
    const project = await this.kubernetes.getProject(row.ref);
    if (project) this.cache.put(project);
    else await this.rows.remove(row.id);
  }

  /** The one who asked never heard of it: without the JWT secret that was to come with it, it is of no use to anybody. */
  private async settle(row: ProjectRow, project: SeenProject): Promise<void> {
    const needed = project.spec.jwtSecretRef?.name;
    const lacks = needed === SECRETS.jwt.name && !(await this.kubernetes.getSecret(row.ref, needed));
    if (lacks) await this.kubernetes.deleteProject(row.ref, project.metadata.uid);
    else await this.rows.markComplete(row.id);
  }
}
