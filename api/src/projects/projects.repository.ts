/** The integer id of each Project, and who holds which name. The Project itself lives in the Kubernetes API. */
import { MikroORM, UniqueConstraintViolationException } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';

export interface ProjectRow {
  id: number;
  ref: string;
  uid: string | null;
  complete: boolean;
  /** Seconds since it was reserved. */
  age: number;
}

const COLUMNS = 'id, ref, uid, complete, extract(epoch from now() - created_at)::float8 as age';

@Injectable()
export class ProjectsRepository {
  constructor(private readonly orm: MikroORM) {}

  /** An id and the name, for a Project that is about to be created. */
  async reserve(ref: string, owner: string, name: string): Promise<number> {
    const sql = 'insert into platform.projects (ref, owner, held_name, complete) values (?, ?, ?, false) returning id';
    try {
      const [row] = await this.rows<{ id: number }>(sql, [ref, owner, name]);
      return (row as { id: number }).id;
    } catch (error) {
      if (!(error instanceof UniqueConstraintViolationException)) throw error;
      throw new Problem('name_taken', `You have a project named ${name}. Choose another name.`, {
        errors: [{ field: 'name', message: 'is the name of another project of yours' }],
      });
    }
  }

  async markCreated(id: number, uid: string): Promise<void> {
    await this.rows('update platform.projects set uid = ?, complete = true where id = ? returning id', [uid, id]);
  }

  async markComplete(id: number): Promise<void> {
    await this.rows('update platform.projects set complete = true where id = ? returning id', [id]);
  }

  /** Gives the Project an id, or learns the uid of one that has an id. Another Project under the same ref gets its own. */
  async adopt(ref: string, uid: string, owner: string, name: string): Promise<void> {
    await this.rows('delete from platform.projects where ref = ? and uid <> ? returning id', [ref, uid]);
    await this.rows(
      `insert into platform.projects (ref, uid, owner, held_name, complete)
       select ?, ?, owner, case when taken then null else name end, true
       from (values (?, ?)) as wanted (owner, name),
         lateral (select exists (
           select from platform.projects p where p.owner = wanted.owner and p.held_name = wanted.name
         )) as others (taken)
       on conflict (ref) do update set uid = excluded.uid
       returning id`,
      [ref, uid, owner, name],
    );
  }

  async byId(id: number): Promise<ProjectRow | undefined> {
    const [row] = await this.rows<ProjectRow>(`select ${COLUMNS} from platform.projects where id = ?`, [id]);
    return row;
  }

  all(): Promise<ProjectRow[]> {
    return this.rows<ProjectRow>(`select ${COLUMNS} from platform.projects`, []);
  }

  async idsOf(refs: string[]): Promise<Map<string, number>> {
    const sql = 'select id, ref from platform.projects where ref in (select jsonb_array_elements_text(?::jsonb))';
    const rows = await this.rows<{ id: number; ref: string }>(sql, [JSON.stringify(refs)]);
    return new Map(rows.map(({ id, ref }) => [ref, id]));
  }

  /** The name may be given to another project. */
  async releaseName(id: number): Promise<void> {
    await this.rows('update platform.projects set held_name = null where id = ? returning id', [id]);
  }

  async remove(id: number): Promise<void> {
    await this.rows('delete from platform.projects where id = ? returning id', [id]);
  }

  private rows<T>(sql: string, values: unknown[]): Promise<T[]> {
    return this.orm.em.fork().execute(sql, values) as unknown as Promise<T[]>;
  }
}
