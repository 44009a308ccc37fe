/**
 * Snapshots of dedicated projects' machines over REST, and their restore. Requests are written to `spec.machine`. The
 * operator executes them, and answers in `status.machine`.
 */
import { Injectable } from '@nestjs/common';
import { MOST_SNAPSHOTS, nextRequest, type Project } from '@slipway/crds';
import type { Principal } from '../callers/principal.js';
import { missing, Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { pendingRestore, refuseWithoutMachine, snapshotOf, snapshotsOf, waitingSnapshot } from './machine-requests.js';
import { ProjectRequests, type SpecPatch } from './project-requests.js';
import { refuseExceptDedicated } from './project-types.js';
import { ProjectsService } from './projects.service.js';
import type { NewSnapshot, RestoreRequested, Snapshot, SnapshotPath, Snapshots } from './snapshot.schema.js';
import { refuseSuspended } from './suspension.js';

@Injectable()
export class SnapshotsService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly requests: ProjectRequests,
  ) {}

  async list(caller: Principal, id: number): Promise<Snapshots> {
    return { items: snapshotsOf(await this.find(caller, id)) };
  }

  async create(caller: Principal, id: number, { name, description }: NewSnapshot): Promise<Snapshot> {
    const written = await this.requests.write(id, await this.find(caller, id), (current) => {
      refuseWithoutMachine(current);
      refuseNewSnapshot(current, name);
      return { machine: { snapshots: { [name]: description === undefined ? {} : { description } } } };
    });
    return snapshotOf(written, name) ?? waitingSnapshot(name, description);
  }

  async remove(caller: Principal, { id, name }: SnapshotPath): Promise<void> {
    await this.requests.write(id, await this.find(caller, id), (current) => {
      const { state } = existing(current, name);
      if (pendingRestore(current) === name) {
        const detail = `The snapshot ${name} is being restored. GET /projects/{id}/status shows the end.`;
        throw new Problem('restore_pending', detail);
      }
      return state === 'deleting' && !isWanted(current, name)
        ? undefined
        : { machine: { snapshots: { [name]: null } } };
    });
  }

  /** Works without a machine too: the operator then creates one from the snapshot. */
  async restore(caller: Principal, { id, name }: SnapshotPath): Promise<RestoreRequested> {
    await this.requests.write(id, await this.find(caller, id), (current) => restorePatch(current, name));
    return { ok: true, snapshot: name };
  }

  private async find(caller: Principal, id: number): Promise<SeenProject> {
    const { project } = await this.projects.find(caller, id);
    refuseExceptDedicated(project);
    return project;
  }
}

const isWanted = ({ spec }: Project, name: string) => Object.hasOwn(spec.machine?.snapshots ?? {}, name);

function existing(project: Project, name: string): Snapshot {
  const snapshot = snapshotOf(project, name);
  if (!snapshot) throw missing('snapshot');
  return snapshot;
}

/** A snapshot that is being deleted counts, because it still exists at the provider. */
function refuseNewSnapshot(project: Project, name: string): void {
  const known = snapshotOf(project, name);
  if (known) {
    const fix = known.state === 'deleting' ? 'It is being deleted: wait, or use another name.' : 'Use another name.';
    throw new Problem('name_taken', `The project has a snapshot ${name}. ${fix}`);
  }
  if (snapshotsOf(project).length < MOST_SNAPSHOTS) return;
  const detail =
    `The project has ${MOST_SNAPSHOTS} snapshots, the maximum. Delete one first: ` +
    'DELETE /projects/{id}/snapshots/{name}. It counts until its deletion is complete.';
  throw new Problem('snapshot_limit', detail);
}

function restorePatch(project: Project, name: string): SpecPatch | undefined {
  refuseSuspended(project);
  const { state } = existing(project, name);
  if (state !== 'complete') {
    const detail = `The snapshot ${name} is ${state}. Only a complete snapshot can be restored.`;
    throw new Problem('snapshot_not_ready', detail);
  }
  const pending = pendingRestore(project);
  // The request exists already: a second one would replace the disk twice.
  if (pending === name) return undefined;
  if (pending !== undefined) {
    const detail = `The snapshot ${pending} is being restored. GET /projects/{id}/status shows the end.`;
    throw new Problem('restore_pending', detail);
  }
  const { spec, status } = project;
  const last = Math.max(spec.machine?.restore?.number ?? 0, status?.machine?.restore?.number ?? 0);
  return { machine: { restore: { number: nextRequest(last), snapshot: name } } };
}
