/** Forms of projects, their entries, and what these use. */
import { type EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';

export const FORM_QUOTA = {
  /** Entries of a project without a flag, and the bytes of their data. */
  entries: 10_000,
  bytes: 64 * 1024 * 1024,
  /** The same for all projects of an account. */
  accountEntries: 50_000,
  accountBytes: 256 * 1024 * 1024,
  /** Flagged entries of a project: the newest are kept. */
  flagged: 1_000,
  forms: 100,
};

/** Bytes of the entries of a page, so that no response is too large for the memory of the API. */
const PAGE_BYTES = 4 * 1024 * 1024;

export interface NewRow {
  projectId: number;
  form: string;
  /** The fields as JSON. */
  text: string;
  bytes: number;
  flagged: string | null;
  at: Date;
}

/** Times are texts, as PostgreSQL writes them. */
export interface FormRow {
  name: string;
  entries: number;
  flagged: number;
  lastAt: string | null;
  keepDays: number | null;
}

export interface EntryRow {
  id: string;
  createdAt: string;
  text: string;
  flagged: string | null;
}

/** Entries of a project without a flag, and the bytes of their data. */
export interface Usage {
  entries: number;
  bytes: number;
}

export interface FormOf {
  projectId: number;
  form: string;
}

export interface EntryPage {
  /** The id of an entry: older ones are returned. */
  before: string | undefined;
  limit: number;
  /** Undefined: entries with and without a flag. */
  flagged: boolean | undefined;
}

const FORM = `f.name, count(e.id) filter (where e.flagged is null)::integer as entries,
  count(e.flagged)::integer as flagged, max(e.created_at) as "lastAt", f.keep_days as "keepDays"
  from platform.forms f left join platform.form_entries e on e.project_id = f.project_id and e.form = f.name`;

@Injectable()
export class FormsRepository {
  constructor(private readonly orm: MikroORM) {}

  /** Returns the id of the project, if it is the one with this uid. */
  async projectId(ref: string, uid: string): Promise<number | undefined> {
    const sql = 'select id from platform.projects where ref = ? and (uid is null or uid = ?)';
    return (await this.rows<{ id: number }>(sql, [ref, uid]))[0]?.id;
  }

  /**
   * Adds an entry, or returns the usage of the project if it has no room. Undefined: the project was deleted. Locks the
   * usage, so that concurrent entries keep the limits. Those of an account may be exceeded by the entries that arrive
   * at one moment.
   */
  async add(em: EntityManager, row: NewRow): Promise<{ id: string } | { full: Usage } | undefined> {
    const { projectId, form, text, bytes, flagged, at } = row;
    const used = await this.lock(em, projectId);
    if (!used) return undefined;
    const hasRoom = flagged !== null || (await this.hasRoom(em, row, used));
    if (!hasRoom || !(await this.ensureForm(em, projectId, form))) return { full: used };
    const [added] = await this.run<{ id: string }>(
      em,
      `insert into platform.form_entries (project_id, form, data, bytes, flagged, created_at)
       values (?, ?, ?::json, ?, ?, ?) returning id`,
      [projectId, form, text, bytes, flagged, at],
    );
    if (flagged === null) {
      const sql = `update platform.form_usage set entries = entries + 1, bytes = bytes + ?
         where project_id = ? returning project_id`;
      await this.run(em, sql, [bytes, projectId]);
    } else await this.dropFlagged(em, projectId);
    return added as { id: string };
  }

  forms(projectId: number): Promise<FormRow[]> {
    return this.rows(`select ${FORM} where f.project_id = ? group by f.project_id, f.name order by f.name`, [
      projectId,
    ]);
  }

  async form({ projectId, form }: FormOf): Promise<FormRow | undefined> {
    const sql = `select ${FORM} where f.project_id = ? and f.name = ? group by f.project_id, f.name`;
    return (await this.rows<FormRow>(sql, [projectId, form]))[0];
  }

  /** Newest first. Returns at least one entry if there is one, and no more than the bytes of a page. */
  entries({ projectId, form }: FormOf, { before, limit, flagged }: EntryPage): Promise<EntryRow[]> {
    return this.rows(
      `select id, created_at as "createdAt", text, flagged from (
         select id, created_at, data::text as text, flagged, bytes,
           sum(bytes) over (order by id desc rows unbounded preceding) as total
         from platform.form_entries
         where project_id = ? and form = ? and (?::bigint is null or id < ?::bigint)
           and (?::boolean is null or (flagged is not null) = ?::boolean)
         order by id desc limit ?
       ) page where total - bytes < ? order by id desc`,
      [projectId, form, before ?? null, before ?? null, flagged ?? null, flagged ?? null, limit, PAGE_BYTES],
    );
  }

  /** Returns the names of fields in the order in which entries had them first, and the newest entry. */
  async fieldNames({ projectId, form }: FormOf, { flagged, most }: { flagged: boolean | undefined; most: number }) {
    const names = await this.rows<{ name: string }>(
      `select name from platform.form_entries e, json_object_keys(e.data) with ordinality as field (name, place)
       where e.project_id = ? and e.form = ? and (?::boolean is null or (e.flagged is not null) = ?::boolean)
       group by name order by min(e.id), min(place) limit ?`,
      [projectId, form, flagged ?? null, flagged ?? null, most],
    );
    return names.map(({ name }) => name);
  }

  /** Returns false if there is no such form. */
  async keep({ projectId, form }: FormOf, days: number | null): Promise<boolean> {
    const sql = 'update platform.forms set keep_days = ? where project_id = ? and name = ? returning name';
    return (await this.rows(sql, [days, projectId, form])).length > 0;
  }

  /** Returns false if there is no such form. */
  removeForm({ projectId, form }: FormOf): Promise<boolean> {
    return this.remove(projectId, 'delete from platform.forms where project_id = ? and name = ? returning name', [
      projectId,
      form,
    ]);
  }

  /** Returns false if there is no such entry. */
  removeEntry({ projectId, form }: FormOf, id: string): Promise<boolean> {
    const sql = 'delete from platform.form_entries where project_id = ? and form = ? and id = ?::bigint returning id';
    return this.remove(projectId, sql, [projectId, form, id]);
  }

  /** Deletes entries that are older than their form keeps them, at most `most` of one project. */
  async removeExpired(now: Date, most: number): Promise<boolean> {
    const expired = `from platform.form_entries e
         join platform.forms f on f.project_id = e.project_id and f.name = e.form
       where f.keep_days is not null and e.created_at < ?::timestamptz - make_interval(days => f.keep_days)`;
    const [first] = await this.rows<{ id: number }>(`select e.project_id as id ${expired} limit 1`, [now]);
    if (!first) return false;
    const sql = `delete from platform.form_entries where id in (
        select e.id ${expired} and e.project_id = ? limit ?
      ) returning id`;
    return this.remove(first.id, sql, [now, first.id, most]);
  }

  /** Counts what is left after a deletion, under the lock that entries are added with. */
  private remove(projectId: number, sql: string, values: unknown[]): Promise<boolean> {
    return this.orm.em.fork().transactional(async (em) => {
      if (!(await this.lock(em, projectId))) return false;
      if ((await this.run(em, sql, values)).length === 0) return false;
      await this.run(
        em,
        `update platform.form_usage u set (entries, bytes) = (
           select count(*), coalesce(sum(e.bytes), 0) from platform.form_entries e
           where e.project_id = u.project_id and e.flagged is null
         ) where project_id = ? returning project_id`,
        [projectId],
      );
      return true;
    });
  }

  /** Returns undefined if the project was deleted. Its row is locked first, as a deletion does. */
  private async lock(em: EntityManager, projectId: number): Promise<Usage | undefined> {
    const alive = await this.run(em, 'select from platform.projects where id = ? for key share', [projectId]);
    if (alive.length === 0) return undefined;
    await this.run(
      em,
      'insert into platform.form_usage (project_id) values (?) on conflict do nothing returning project_id',
      [projectId],
    );
    const sql = 'select entries, bytes from platform.form_usage where project_id = ? for update';
    const [used] = await this.run<{ entries: number; bytes: string }>(em, sql, [projectId]);
    return used && { entries: used.entries, bytes: Number(used.bytes) };
  }

  private async hasRoom(em: EntityManager, { projectId, bytes }: NewRow, used: Usage): Promise<boolean> {
    const isFull = used.entries >= FORM_QUOTA.entries || used.bytes + bytes > FORM_QUOTA.bytes;
    if (isFull) return false;
    const [account] = await this.run<{ entries: number; bytes: string }>(
      em,
      `select coalesce(sum(u.entries), 0)::integer as entries, coalesce(sum(u.bytes), 0)::bigint as bytes
       from platform.projects own join platform.projects p on p.owner_id = own.owner_id
         join platform.form_usage u on u.project_id = p.id
       where own.id = ?`,
      [projectId],
    );
    if (!account) return true;
    return account.entries < FORM_QUOTA.accountEntries && Number(account.bytes) + bytes <= FORM_QUOTA.accountBytes;
  }

  /** Returns false if the project has too many forms for another one. */
  private async ensureForm(em: EntityManager, projectId: number, name: string): Promise<boolean> {
    const known = 'select from platform.forms where project_id = ? and name = ?';
    if ((await this.run(em, known, [projectId, name])).length > 0) return true;
    const sql = `insert into platform.forms (project_id, name)
       select ?::integer, ? where (select count(*) from platform.forms where project_id = ?) < ? returning name`;
    return (await this.run(em, sql, [projectId, name, projectId, FORM_QUOTA.forms])).length > 0;
  }

  private async dropFlagged(em: EntityManager, projectId: number): Promise<void> {
    const sql = `delete from platform.form_entries where project_id = ? and flagged is not null and id <= (
         select id from platform.form_entries where project_id = ? and flagged is not null
         order by id desc offset ? limit 1
       ) returning id`;
    await this.run(em, sql, [projectId, projectId, FORM_QUOTA.flagged]);
  }

  private rows<T>(sql: string, values: unknown[]): Promise<T[]> {
    return this.run(this.orm.em.fork(), sql, values);
  }

  private run<T>(em: EntityManager, sql: string, values: unknown[]): Promise<T[]> {
    return em.execute(sql, values) as unknown as Promise<T[]>;
  }
}
