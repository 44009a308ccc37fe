/**
 * Notices changes of projects' health and quotas. In: the cached Projects, as they are. Out: events in the outbox, in
 * the transaction that records the new state. So a watch that was broken, or a program that ended, loses no change and
 * doubles none: the present state is compared with the recorded one.
 */
import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { Outbox } from '../outbox/outbox.js';
import { wantedChannels } from '../outbox/wanted-channels.js';
import { nameOf } from '../projects/project-view.js';
import { clockOf } from '../settings/clock.js';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { type Decision, decide, type Quota } from './health.js';
import { HealthRepository, type ProjectIdentity } from './health.repository.js';
import { conditionOf, fingerprintOf, observedAt, observedOf } from './observed.js';

/** Projects that one statement looks up. */
const AT_ONCE = 200;

@Injectable()
export class ProjectEvents {
  /** Fingerprints of recorded states, by ref. */
  private readonly recorded = new Map<string, string>();
  /** Refs of projects whose state may not be recorded. */
  private readonly changed = new Set<string>();
  private readonly now: () => Date;

  constructor(
    private readonly cache: ProjectCache,
    private readonly repository: HealthRepository,
    private readonly outbox: Outbox,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
    @Inject(LOG) private readonly log: Logger,
  ) {
    this.now = clockOf(settings);
  }

  /** Calls `onChange` when a state is to be recorded. */
  start(onChange: () => void): void {
    this.cache.observe((ref) => {
      if (this.isRecorded(ref)) return;
      this.changed.add(ref);
      onChange();
    });
    for (const { metadata } of this.cache.all()) this.changed.add(metadata.name);
    onChange();
  }

  /** Records all changes. A project whose record fails is compared again by the next call. */
  async compare(): Promise<void> {
    const refs = [...new Set([...this.changed, ...(await this.repository.due(this.now()))])];
    const projects = refs.flatMap((ref) => this.cache.get(ref) ?? []);
    for (const ref of refs) if (!this.cache.get(ref)) this.changed.delete(ref);
    for (let at = 0; at < projects.length; at += AT_ONCE) await this.recordAll(projects.slice(at, at + AT_ONCE));
  }

  /** A project in provisioning has no state that its owner is notified of. */
  private isRecorded(ref: string): boolean {
    const project = this.cache.get(ref);
    const { uid = '' } = project?.metadata ?? {};
    if (!project) this.recorded.delete(ref);
    if (!project || observedOf(project).health === 'provisioning') return true;
    return this.recorded.get(ref) === `${uid} ${fingerprintOf(project)}`;
  }

  private async recordAll(projects: readonly SeenProject[]): Promise<void> {
    const identities = await this.repository.identities(projects.map(({ metadata }) => metadata.name));
    const byRef = new Map(identities.map((identity) => [identity.ref, identity]));
    for (const project of projects) {
      const identity = byRef.get(project.metadata.name);
      // A project without an id gets one soon.
      if (!identity || (identity.uid !== null && identity.uid !== project.metadata.uid)) continue;
      try {
        await this.record(identity, project);
        this.recorded.set(identity.ref, `${project.metadata.uid} ${fingerprintOf(project)}`);
        if (this.isRecorded(identity.ref)) this.changed.delete(identity.ref);
      } catch (error) {
        this.log.warn({ err: error, ref: identity.ref }, 'health of a project not recorded; tried again');
      }
    }
  }

  private async record({ id, ref }: ProjectIdentity, project: SeenProject): Promise<void> {
    const observed = observedOf(project);
    const now = this.now();
    let isAdded = false;
    await this.repository.change(id, { observedAt: observedAt(project), now }, async (known, em) => {
      const { record, events } = decide(known, observed, now);
      for (const event of events) {
        const { type, since, quota } = event;
        const key = [project.metadata.uid, type, ...(quota ? [quota] : []), now.toISOString()].join('/');
        const data = { project: { id, ref, name: nameOf(project) }, ...this.factsOf(project, event) };
        const wanted = wantedChannels(project, this.settings);
        isAdded = (await this.outbox.addForProject(em, id, wanted, { key, type, at: since, data })) || isAdded;
      }
      return record;
    });
    if (isAdded) this.outbox.announce();
  }

  private factsOf(project: SeenProject, { type, quota }: Decision['events'][number]): Record<string, unknown> {
    if (quota) return { quota, ...usageOf(project, quota) };
    if (type === 'project.failing') {
      const { reason, message } = conditionOf(project, 'Ready') ?? {};
      return { reason: reason ?? null, message: message ?? project.status?.message ?? null };
    }
    return { url: project.status?.url ?? null };
  }
}

function usageOf({ status }: SeenProject, quota: Quota): { used_bytes: number | null; limit_bytes: number | null } {
  const { used = null, limit = null } = status?.usage?.[quota] ?? {};
  return { used_bytes: used, limit_bytes: limit };
}
