/** Routes for the snapshots of a dedicated project's machine: list, create, delete and restore. */
import { Body, Controller, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { MOST_SNAPSHOTS } from '@slipway/crds';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { ProjectId } from './project.schema.js';
import { NO_PROJECT, NOT_DEDICATED } from './project-problems.js';
import { NewSnapshot, RestoreRequested, Snapshot, SnapshotPath, Snapshots } from './snapshot.schema.js';
import { SnapshotsService } from './snapshots.service.js';

const EXAMPLE: Snapshot = {
  name: 'before-import',
  description: 'Before the import of March',
  state: 'complete',
  message: null,
  disk_gb: 40,
  created_at: '2026-01-05T10:00:00.000Z',
};
const WAITING: Snapshot = { ...EXAMPLE, state: 'waiting', disk_gb: null, created_at: null };
const NO_SNAPSHOT = { 404: 'There is no such project, it is not yours, or it has no such snapshot.' };

@ApiTags('machines')
@Controller()
export class SnapshotsController {
  constructor(private readonly snapshots: SnapshotsService) {}

  @Route('GET', '/projects/{id}/snapshots', {
    summary: 'List the snapshots of a dedicated project',
    description: 'A snapshot that was deleted is `deleting` until the provider has deleted it.',
    access: 'projects:read',
    params: ProjectId,
    answer: { status: 200, description: 'The snapshots.', schema: Snapshots, example: { items: [EXAMPLE] } },
    problems: { ...NO_PROJECT, ...NOT_DEDICATED },
  })
  listSnapshots(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Snapshots> {
    return this.snapshots.list(caller, id);
  }

  @Route('POST', '/projects/{id}/snapshots', {
    summary: 'Create a snapshot of a dedicated project’s disk',
    description:
      'Responds at once; poll /projects/{id}/snapshots until it is `complete`. The machine is shut down ' +
      'for the copy: until it runs again, the project’s services don’t respond. ' +
      'A suspended project can be copied too. The provider bills the storage of a snapshot.',
    access: 'projects:write',
    cost: 20,
    params: ProjectId,
    body: NewSnapshot,
    bodyExamples: { snapshot: { name: EXAMPLE.name, description: EXAMPLE.description } },
    answer: { status: 202, description: 'The snapshot is requested.', schema: Snapshot, example: WAITING },
    problems: {
      ...NO_PROJECT,
      ...NOT_DEDICATED,
      409: {
        kind: 'snapshot_limit',
        text:
          'The project has a snapshot of this name, or the maximum of ' +
          `${MOST_SNAPSHOTS} snapshots (\`snapshot_limit\`); it has no machine; or it is being deleted.`,
      },
    },
  })
  createSnapshot(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() body: NewSnapshot,
  ): Promise<Snapshot> {
    return this.snapshots.create(caller, id, body);
  }

  @Route('DELETE', '/projects/{id}/snapshots/{name}', {
    summary: 'Delete a snapshot of a dedicated project',
    description: 'Responds at once. The snapshot is `deleting` until the provider has deleted it.',
    access: 'projects:write',
    cost: 10,
    params: SnapshotPath,
    answer: { status: 204, description: 'The deletion is requested.' },
    problems: {
      ...NO_SNAPSHOT,
      ...NOT_DEDICATED,
      409: { kind: 'restore_pending', text: 'The snapshot is being restored, or the project is being deleted.' },
    },
  })
  deleteSnapshot(@Caller() caller: Principal, @Param() path: SnapshotPath): Promise<void> {
    return this.snapshots.remove(caller, path);
  }

  @Route('POST', '/projects/{id}/snapshots/{name}/restore', {
    summary: 'Restore a dedicated project from a snapshot',
    description:
      'Replaces the disk of the machine. **Everything that was written since the snapshot is lost**. The project’s ' +
      'services don’t respond during the restore. Responds at once; `machine.restore` of /projects/{id}/status ' +
      'shows the end. ' +
      'It also works if the machine was lost. Repeating the request during the restore does not begin another one.',
    access: 'projects:write',
    cost: 20,
    params: SnapshotPath,
    answer: {
      status: 202,
      description: 'The restore is requested.',
      schema: RestoreRequested,
      example: { ok: true, snapshot: EXAMPLE.name },
    },
    problems: {
      ...NO_SNAPSHOT,
      ...NOT_DEDICATED,
      409: {
        kind: 'snapshot_not_ready',
        text:
          'The snapshot is not complete, another one is being restored, or the project is suspended or being ' +
          'deleted.',
      },
    },
  })
  restoreSnapshot(@Caller() caller: Principal, @Param() path: SnapshotPath): Promise<RestoreRequested> {
    return this.snapshots.restore(caller, path);
  }
}
