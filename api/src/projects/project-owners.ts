/**
 * Keeps the owner of each Project: an account, by its id. In: a row of the platform's database and the Project that it
 * is of. Called by `project-ids.ts` at each of its looks. `spec.owner` is an address for people; what it names is
 * decided when it is first seen there.
 */
import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { LOG } from '../platform.js';
import { ProjectOwnersRepository, type SeenSpec } from './project-owners.repository.js';
import { specOf } from './project-view.js';
import type { ProjectRow } from './projects.repository.js';

@Injectable()
export class ProjectOwners {
  constructor(
    private readonly owners: ProjectOwnersRepository,
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
    private readonly mail: AccountMail,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  /** Brings the row in step with the spec, if it has changed since. */
  async follow(row: ProjectRow, project: SeenProject): Promise<void> {
    const spec = specOf(project);
    if (row.generation === null) await this.owners.settle(row.id, spec);
    else if (row.generation >= spec.generation || row.followOwner) return;
    else if (await this.isSameOwner(row, spec)) await this.owners.keepOwner(row.id, spec);
    else {
      const former = row.ownerId === null ? undefined : await this.owners.addressOf(row.ownerId);
      await this.owners.dismissOwner(row, spec);
      if (former) this.mail.post(former, letters.projectGone(this.mail.publicUrl, row.ref));
      this.log.info({ ref: row.ref, formerOwner: row.ownerId }, 'project lost its owner: spec.owner changed');
    }
    if (!project.metadata.deletionTimestamp) await this.owners.keepName(row.id, spec.name);
  }

  /**
   * Writes the address of the account into `spec.owner`, where the account changed it, or an administrator assigned the
   * project. In: both read just now, the Project first.
   */
  async lead(row: ProjectRow, project: SeenProject): Promise<void> {
    if (!row.followOwner || row.ownerId === null || project.metadata.deletionTimestamp) return;
    const owner = await this.owners.addressOf(row.ownerId);
    const { name, uid, resourceVersion } = project.metadata;
    const patched = await this.kubernetes.patchProject(name, { metadata: { uid, resourceVersion }, spec: { owner } });
    if (!patched) return;
    const spec = { ...specOf(this.cache.put(patched)), owner };
    await this.owners.followed(row.id, row.ownerId, spec);
    await this.owners.keepName(row.id, spec.name);
    this.log.info({ ref: row.ref, account: row.ownerId }, 'spec.owner follows the account');
  }

  /**
   * Assigns what has no owner, where an account may inherit it. True: there was something, and a transfer is to begin.
   */
  async claim(): Promise<boolean> {
    const claimed = await this.owners.claim(this.mail.isConfigured);
    for (const { id: project, ref, ownerId, lastOwnerId, email } of claimed) {
      this.log.info({ project, ref, account: ownerId, formerOwner: lastOwnerId }, 'project assigned');
      if (lastOwnerId !== ownerId) this.mail.post(email, letters.project(this.mail.publicUrl, ref));
    }
    return claimed.length > 0;
  }

  noteRemoval(id: number): Promise<void> {
    return this.owners.noteRemoval(id);
  }

  private async isSameOwner({ owner, ownerId }: ProjectRow, spec: SeenSpec): Promise<boolean> {
    if (owner === spec.owner) return true;
    return ownerId !== null && (await this.owners.isAddressOf(ownerId, spec.owner));
  }
}
