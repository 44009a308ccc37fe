/**
 * Stores the integer ids of EdgeFunctions. A function created over REST gets an id at once. A function applied with
 * kubectl gets an id when it is first listed.
 */
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';

export interface FunctionRow {
  id: number;
  /** Name of the resource. */
  name: string;
  uid: string;
}

@Injectable()
export class FunctionsRepository {
  constructor(private readonly orm: MikroORM) {}

  async uidsOf(projectId: number): Promise<string[]> {
    const sql = 'select uid from platform.edge_functions where project_id = ?';
    return (await this.rows<FunctionRow>(sql, [projectId])).map(({ uid }) => uid);
  }

  /**
   * Returns the ids of a project's functions by uid, and deletes ids of functions that no longer exist. `before` are
   * the uids that had an id before `functions` was read. Ids of other uids may belong to newer functions, and stay.
   */
  async idsOf(
    projectId: number,
    functions: { uid: string; name: string }[],
    before: readonly string[],
  ): Promise<Map<string, number>> {
    const seen = JSON.stringify(functions);
    await this.rows(
      `delete from platform.edge_functions where project_id = ?
       and uid in (select jsonb_array_elements_text(?::jsonb))
       and uid not in (select uid from jsonb_to_recordset(?::jsonb) as seen (uid text)) returning id`,
      [projectId, JSON.stringify(before), seen],
    );
    // `on conflict` would consume an id for each function at each call.
    await this.rows(
      `insert into platform.edge_functions (project_id, uid, name)
       select ?, uid, name from jsonb_to_recordset(?::jsonb) as seen (uid text, name text)
       where not exists (select from platform.edge_functions known where known.uid = seen.uid)
       on conflict (uid) do nothing returning id`,
      [projectId, seen],
    );
    const rows = await this.rows<FunctionRow>('select id, uid from platform.edge_functions where project_id = ?', [
      projectId,
    ]);
    return new Map(rows.map(({ uid, id }) => [uid, id]));
  }

  async add(projectId: number, uid: string, name: string): Promise<number> {
    const [row] = await this.rows<FunctionRow>(
      `insert into platform.edge_functions (project_id, uid, name) values (?, ?, ?)
       on conflict (uid) do update set name = excluded.name returning id`,
      [projectId, uid, name],
    );
    return (row as FunctionRow).id;
  }

  async byId(projectId: number, id: number): Promise<FunctionRow | undefined> {
    const sql = 'select id, uid, name from platform.edge_functions where project_id = ? and id = ?';
    const [row] = await this.rows<FunctionRow>(sql, [projectId, id]);
    return row;
  }

  private rows<T>(sql: string, values: unknown[]): Promise<T[]> {
    return this.orm.em.fork().execute(sql, values) as unknown as Promise<T[]>;
  }
}
