/**
 * Keeps ids and Projects in step, whatever died in between: a Project without an id (kubectl applied it) gets one, an
 * id whose Project is gone goes too, and a creation that was never acknowledged is finished or taken back. It looks at
 * what is, not at what changed: run at start, whenever a Project or its spec changes, and every half minute. Who owns a
 * Project is decided by `project-owners.ts`.
 */
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { SECRETS } from '@slipway/crds';
import type { Logger } from 'pino';
import { isConflict, Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { LOG } from '../platform.js';
import { ProjectOwners } from './project-owners.js';
import { ProjectTransfers } from './project-transfers.js';
import { specOf } from './project-view.js';
import { type ProjectRow, ProjectsRepository } from './projects.repository.js';

const EVERY_MS = 30_000;
/** A creation over REST that is older than this many seconds is not under way any more. */
const ABANDONED_AFTER = 120;

@Injectable()
export class ProjectIds implements OnApplicationBootstrap, OnApplicationShutdown {
  private running: Promise<void> | undefined;
  private again = false;
  private acting: Promise<void> | undefined;
  private actAgain = false;
  private closed = false;
  private timer: NodeJS.Timeout | undefined;
  /** By id, as of the last look. */
  private known = new Map<number, Pick<ProjectRow, 'ref' | 'uid'>>();

  constructor(
    private readonly rows: ProjectsRepository,
    private readonly owners: ProjectOwners,
    private readonly transfers: ProjectTransfers,
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    this.cache.onChange(() => void this.reconcile());
    this.timer = setInterval(() => void this.reconcile(), EVERY_MS);
    await this.reconcile();
  }

  async onApplicationShutdown(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    await this.running;
    await this.acting;
  }

  /** Resolves once all that the watch has reported is in the rows; at once where it is already. */
  async settled(): Promise<void> {
    await this.running;
  }

  /** Returns the Project of an id, whoever owns it, as of the last look. Reads no database. */
  projectOf(id: number): SeenProject | undefined {
    const row = this.known.get(id);
    const project = row && this.cache.get(row.ref);
    return project && (row.uid === null || row.uid === project.metadata.uid) ? project : undefined;
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
      this.act();
    }
  }

  /**
   * Changes Projects as their rows say, beside the looks: no request waits for a database that is slow to end its
   * sessions.
   */
  private act(): void {
    this.actAgain = true;
    this.acting ??= this.changeProjects().finally(() => {
      this.acting = undefined;
    });
  }

  private async changeProjects(): Promise<void> {
    while (this.actAgain && !this.closed) {
      this.actAgain = false;
      const pending = await this.rows.pending().catch((error: unknown) => {
        this.log.error({ err: error }, 'pending changes of Projects not read; the next look tries again');
        return [];
      });
      for (const { id, ref } of pending) if (!this.closed) await this.changeProject(id, ref);
    }
  }

  /** A Project that the server refuses to change keeps no other from its change. */
  private async changeProject(id: number, ref: string, attempts = 3): Promise<void> {
    try {
      const led = await this.readNow(id, ref);
      if (led) await this.owners.lead(led.row, led.project);
      const moved = led?.row.followOwner ? await this.readNow(id, ref) : led;
      if (moved) await this.transfers.advance(moved.row, moved.project);
    } catch (error) {
      if (isConflict(error) && attempts > 1) return this.changeProject(id, ref, attempts - 1);
      this.log.warn({ err: error, ref }, 'project not changed as its row says; the next look tries again');
    }
  }

  /**
   * The Project first: if another replica acts after this read, the resourceVersion is old and the patch changes
   * nothing.
   */
  private async readNow(id: number, ref: string) {
    const current = await this.kubernetes.getProject(ref);
    const row = await this.rows.byId(id);
    if (!current || !row || row.uid !== current.metadata.uid) return undefined;
    return { row, project: current as SeenProject };
  }

  private async once(): Promise<void> {
    const rows = await this.rows.all();
    this.remember(rows);
    let adopted = 0;
    const byRef = new Map(rows.map((row) => [row.ref, row]));
    for (const project of [...this.cache.all()]) {
      const row = byRef.get(project.metadata.name);
      if (row?.uid !== project.metadata.uid) {
        await this.adopt(project, row);
        adopted += 1;
      } else await this.compareOwner(row, project);
    }
    if (adopted > 0) this.remember(await this.rows.all());
    if (await this.owners.claim()) this.again = true;
    for (const row of rows) {
      const project = this.cache.get(row.ref);
      if (!project) await this.dropIfGone(row);
      else if (!row.complete && row.age > ABANDONED_AFTER) await this.settle(row, project);
    }
  }

  private remember(rows: ProjectRow[]): void {
    this.known = new Map(rows.map(({ id, ref, uid }) => [id, { ref, uid }]));
  }

  /** A Project that the server refuses to change keeps no other from its look. */
  private async compareOwner(row: ProjectRow, project: SeenProject): Promise<void> {
    try {
      await this.owners.follow(row, project);
    } catch (error) {
      this.log.warn({ err: error, ref: row.ref }, 'owner of a project not compared; the next look tries again');
    }
  }

  private async adopt(project: SeenProject, row: ProjectRow | undefined): Promise<void> {
    const { name: ref, uid, creationTimestamp: createdAt } = project.metadata;
    const replaced = row?.uid ?? null;
    // The cache may be behind: the row may be of the Project that came after the one it shows.
    if (replaced !== null) {
      const current = await this.kubernetes.getProject(ref);
      if (current) this.cache.put(current);
      if (current?.metadata.uid !== uid) return;
    }
    await this.rows.adopt({ ref, uid, createdAt, ...specOf(project) }, replaced);
  }

  private async dropIfGone(row: ProjectRow): Promise<void> {
    if (row.uid === null && row.age < ABANDONED_AFTER) return;
    const project = await this.kubernetes.getProject(row.ref);
    if (project) this.cache.put(project);
    else {
      await this.owners.noteRemoval(row.id);
      await this.rows.removeGone(row.id, row.uid);
    }
  }

  /**
   * The one who asked never heard of it: without the JWT secret that was to come with it, it is of no use to anybody.
   */
  private async settle(row: ProjectRow, project: SeenProject): Promise<void> {
    const needed = project.spec.jwtSecretRef?.name;
    const lacks = needed === SECRETS.jwt.name && !(await this.kubernetes.getSecret(row.ref, needed));
    if (lacks) await this.kubernetes.deleteProject(row.ref, project.metadata.uid);
    else await this.rows.markComplete(row.id);
  }
}
