/**
 * Keeps the owner of each Project. In: a row of the platform database and its Project, from each comparison of
 * `project-ids.ts`. `spec.owner` is an address for people; the account that it names is decided when the address first
 * appears there.
 */
import { Inject, Injectable } from '@nestjs/common';
import { ANNOTATION_UNOWNED, unownedMessage } from '@slipway/crds';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { LOG } from '../settings/injected.js';
import { ProjectOwnersRepository, type SeenSpec } from './project-owners.repository.js';
import { ownerOf, specOf } from './project-view.js';
import type { ProjectRow } from './projects.repository.js';

const unownedBy = ({ ownerId, owner }: ProjectRow): string | null => (ownerId === null ? owner : null);

/**
 * True if the Project's `unowned` annotation matches its row, if the row is behind the spec, or if it is being deleted.
 */
export function isMarked(row: ProjectRow, project: SeenProject): boolean {
  const { deletionTimestamp, annotations } = project.metadata;
  if (deletionTimestamp || row.owner !== ownerOf(project)) return true;
  return (annotations?.[ANNOTATION_UNOWNED] ?? null) === unownedBy(row);
}

@Injectable()
export class ProjectOwners {
  constructor(
    private readonly owners: ProjectOwnersRepository,
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
    private readonly mail: AccountMail,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  /** Updates the row if the spec has changed since. */
  async follow(row: ProjectRow, project: SeenProject): Promise<void> {
    const spec = specOf(project);
    if (row.generation === null) await this.owners.settle(row.id, spec);
    else if (row.generation >= spec.generation || row.followOwner) return;
    else if (await this.isSameOwner(row, spec)) await this.owners.keepOwner(row.id, spec);
    else {
      const former = row.ownerId === null ? undefined : await this.owners.addressOf(row.ownerId);
      await this.owners.dismissOwner(row, spec);
      if (former) this.mail.post(former, letters.projectGone(this.mail.publicUrl, row.ref));
      this.log.info({ ref: row.ref, formerOwner: row.ownerId }, 'project owner dismissed');
    }
    if (!project.metadata.deletionTimestamp) await this.owners.keepName(row.id, spec.name);
  }

  /**
   * Writes the account's address into `spec.owner`, after the account changed it or an administrator assigned the
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
    this.log.info({ ref: row.ref, account: row.ownerId }, 'project owner updated');
  }

  /**
   * Annotates a Project that no account owns, which its status then shows, and records an Event. Removes the annotation
   * once an account owns it. In: both read just now, the Project first.
   */
  async mark(row: ProjectRow, project: SeenProject): Promise<void> {
    if (isMarked(row, project)) return;
    const { name, uid, resourceVersion } = project.metadata;
    const owner = unownedBy(row);
    const annotations = { [ANNOTATION_UNOWNED]: owner };
    const patched = await this.kubernetes.patchProject(name, { metadata: { uid, resourceVersion, annotations } });
    if (!patched) return;
    this.cache.put(patched);
    if (owner !== null) await this.kubernetes.recordEvent(patched, 'OwnerUnknown', unownedMessage(name, owner));
  }

  /** Assigns projects without an owner to accounts that may inherit them. Returns true if any was assigned. */
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
