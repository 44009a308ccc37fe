/**
 * Stores entries of forms. In: an entry that the data plane received at a site. Out: a row, and for an entry without a
 * flag the event `form.received` in the same transaction. A full project gets the event `quota.exceeded` once a day.
 */
import { type EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { Inject, Injectable } from '@nestjs/common';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import type { NewEvent } from '../outbox/events.js';
import { Outbox } from '../outbox/outbox.js';
import { wantedChannels } from '../outbox/wanted-channels.js';
import { nameOf } from '../projects/project-view.js';
import { clockOf } from '../settings/clock.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { entryText, type FieldValue, readEntryText } from './entry-data.js';
import { FORM_QUOTA, FormsRepository, type Usage } from './forms.repository.js';

export interface ReceivedEntry {
  ref: string;
  form: string;
  fields: readonly (readonly [name: string, value: FieldValue])[];
  flagged: string | null;
}

/** `unknown`: the project does not exist, or accepts no forms. */
export type Received = 'stored' | 'full' | 'unknown';

@Injectable()
export class EntryIntake {
  private readonly now: () => Date;

  constructor(
    private readonly cache: ProjectCache,
    private readonly forms: FormsRepository,
    private readonly outbox: Outbox,
    private readonly orm: MikroORM,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {
    this.now = clockOf(settings);
  }

  async receive(entry: ReceivedEntry): Promise<Received> {
    const project = this.cache.get(entry.ref);
    if (!project || project.metadata.deletionTimestamp || project.spec.formsEnabled !== true) return 'unknown';
    const id = await this.forms.projectId(entry.ref, project.metadata.uid);
    if (id === undefined) return 'unknown';
    const received = await this.orm.em.fork().transactional((em) => this.store(em, id, { project, entry }));
    this.outbox.announce();
    return received;
  }

  private async store(
    em: EntityManager,
    projectId: number,
    { project, entry: { form, fields, flagged } }: { project: SeenProject; entry: ReceivedEntry },
  ): Promise<Received> {
    const at = this.now();
    const { text, bytes } = entryText(fields);
    const wanted = wantedChannels(project, this.settings);
    const about = { id: projectId, ref: project.metadata.name, name: nameOf(project) };
    const added = await this.forms.add(em, { projectId, form, text, bytes, flagged, at });
    if (!added) return 'unknown';
    if ('full' in added) {
      await this.outbox.addForProject(em, projectId, wanted, fullEvent(project, about, { used: added.full, at }));
      return 'full';
    }
    if (flagged === null) {
      const data = { project: about, form, entry: entryView(added.id, at, text) };
      const event: NewEvent = {
        key: `form-entry-${added.id}`,
        type: 'form.received',
        at,
        data,
        isOnlyForChannels: true,
      };
      await this.outbox.addForProject(em, projectId, wanted, event);
    }
    return 'stored';
  }
}

/** Bytes of an entry's fields in a notification, which is stored beside the entry for up to two weeks. */
const MOST_NOTIFIED = 8 * 1024;

/** `is_cut`: further fields are only in the entry. */
function entryView(id: string, at: Date, text: string) {
  const all = Object.entries(readEntryText(text));
  const shown: typeof all = [];
  let bytes = 0;
  for (const field of all) {
    const size = Buffer.byteLength(JSON.stringify(field));
    if (bytes + size > MOST_NOTIFIED) continue;
    bytes += size;
    shown.push(field);
  }
  const isCut = shown.length < all.length;
  return { id, created_at: at.toISOString(), data: Object.fromEntries(shown), ...(isCut && { is_cut: true }) };
}

/** The key has the day, so that a day has one event. */
const fullEvent = ({ metadata }: SeenProject, project: object, { used, at }: { used: Usage; at: Date }): NewEvent => ({
  key: `${metadata.uid}/quota.exceeded/forms/${at.toISOString().slice(0, 10)}`,
  type: 'quota.exceeded',
  at,
  data: {
    project,
    quota: 'forms',
    used_bytes: used.bytes,
    limit_bytes: FORM_QUOTA.bytes,
    used_entries: used.entries,
    limit_entries: FORM_QUOTA.entries,
  },
});
