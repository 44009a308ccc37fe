/**
 * Keeps ids and Projects consistent after any crash. A Project without an id, applied with kubectl, gets one. An id
 * whose Project was deleted is deleted. An unacknowledged creation is finished or undone. Compares the present state at
 * start, when a Project or its spec changes, and every half minute. `project-owners.ts` decides who owns a Project.
 */
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { SECRETS } from '@slipway/installation';
import { isConflict } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { LOG } from '../settings/injected.js';
import { isMarked, ProjectOwners } from './project-owners.js';
import { ProjectTransfers } from './project-transfers.js';
import { specOf } from './project-view.js';
import { type ProjectRow, ProjectsRepository } from './projects.repository.js';

const EVERY_MS = 30_000;
/** Seconds after which a creation over REST without an acknowledgement counts as abandoned. */
const ABANDONED_AFTER = 120;

const isBehind = ({ generation }: ProjectRow, { metadata }: SeenProject) =>
  (generation ?? 0) < (metadata.generation ?? 1);

@Injectable()
export class ProjectIds implements OnApplicationBootstrap, OnApplicationShutdown {
  private running: Promise<void> | undefined;
  private again = false;
  private acting: Promise<void> | undefined;
  private actAgain = false;
  private closed = false;
  private timer: NodeJS.Timeout | undefined;
  /** Rows by id, as of the last comparison. */
  private known = new Map<number, Pick<ProjectRow, 'ref' | 'uid'>>();

  /** Projects whose `unowned` annotation is to be set or removed, as of the last comparison. */
  private mismarked: Pick<ProjectRow, 'id' | 'ref'>[] = [];

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

  /** Resolves once the rows have everything that the watch has reported. */
  async settled(): Promise<void> {
    await this.running;
  }

  /** Returns the Project of an id, of any owner, as of the last comparison. Reads no database. */
  projectOf(id: number): SeenProject | undefined {
    const row = this.known.get(id);
    const project = row && this.cache.get(row.ref);
    return project && (row.uid === null || row.uid === project.metadata.uid) ? project : undefined;
  }

  /** Like `projectOf`, but also finds a project that was just created. */
  async settledProjectOf(id: number): Promise<SeenProject | undefined> {
    const project = this.projectOf(id);
    if (project) return project;
    // The comparison that is running finds a project that was just created.
    await this.settled();
    return this.projectOf(id);
  }

  /** Resolves when a comparison that began after this call has ended. */
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
        this.log.error({ err: error }, 'project ids not compared; retried at the next comparison');
      }
      this.act();
    }
  }

  /**
   * Applies pending changes of rows to their Projects in the background, as a database may be slow to end its sessions.
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
        this.log.error({ err: error }, 'pending project changes not read; retried at the next comparison');
        return [];
      });
      for (const { id, ref } of [...pending, ...this.mismarked]) if (!this.closed) await this.changeProject(id, ref);
    }
  }

  /** Continues with the other Projects if the server rejects the change of one. */
  private async changeProject(id: number, ref: string, attempts = 3): Promise<void> {
    try {
      const led = await this.readNow(id, ref);
      if (led) await this.owners.lead(led.row, led.project);
      const moved = led?.row.followOwner ? await this.readNow(id, ref) : led;
      if (moved) await this.transfers.advance(moved.row, moved.project);
      const last = moved && (isMarked(moved.row, moved.project) ? undefined : await this.readNow(id, ref));
      if (last) await this.owners.mark(last.row, last.project);
    } catch (error) {
      if (isConflict(error) && attempts > 1) return this.changeProject(id, ref, attempts - 1);
      this.log.warn({ err: error, ref }, 'project change not applied; retried at the next comparison');
    }
  }

  /**
   * Reads the Project before the row: if another replica acts in between, the patch fails by its old resourceVersion.
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
    let current = rows;
    let changed = 0;
    const byRef = new Map(rows.map((row) => [row.ref, row]));
    for (const project of [...this.cache.all()]) {
      const row = byRef.get(project.metadata.name);
      if (row?.uid !== project.metadata.uid) {
        await this.adopt(project, row);
        changed += 1;
      } else {
        await this.compareOwner(row, project);
        if (isBehind(row, project)) changed += 1;
      }
    }
    if (changed > 0) {
      current = await this.rows.all();
      this.remember(current);
    }
    if (await this.owners.claim()) this.again = true;
    this.mismarked = current.filter((row) => this.isMismarked(row));
    for (const row of rows) {
      const project = this.cache.get(row.ref);
      if (!project) await this.dropIfGone(row);
      else if (!row.complete && row.age > ABANDONED_AFTER) await this.settle(row, project);
    }
  }

  private isMismarked(row: ProjectRow): boolean {
    const project = this.cache.get(row.ref);
    return project !== undefined && project.metadata.uid === row.uid && !isMarked(row, project);
  }

  private remember(rows: ProjectRow[]): void {
    this.known = new Map(rows.map(({ id, ref, uid }) => [id, { ref, uid }]));
  }

  /** Continues with the other rows if the comparison of one fails. */
  private async compareOwner(row: ProjectRow, project: SeenProject): Promise<void> {
    try {
      await this.owners.follow(row, project);
    } catch (error) {
      this.log.warn({ err: error, ref: row.ref }, 'project owner not compared; retried at the next comparison');
    }
  }

  private async adopt(project: SeenProject, row: ProjectRow | undefined): Promise<void> {
    const { name: ref, uid, creationTimestamp: createdAt } = project.metadata;
    const replaced = row?.uid ?? null;
    // The cache may be behind: the row may belong to a newer Project of the same ref.
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

  /** Settles an unacknowledged creation. Without the JWT secret of its request, the project is useless. */
  private async settle(row: ProjectRow, project: SeenProject): Promise<void> {
    const needed = project.spec.jwtSecretRef?.name;
    const isMissing = needed === SECRETS.jwt.name && !(await this.kubernetes.getSecret(row.ref, needed));
    if (isMissing) await this.kubernetes.deleteProject(row.ref, project.metadata.uid);
    else await this.rows.markComplete(row.id);
  }
}
