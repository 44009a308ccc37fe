/** Integer ids and names of Projects. The Project itself is in the Kubernetes API. */
import { type EntityManager, MikroORM, UniqueConstraintViolationException } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import { RefTaken } from './new-ref.js';

export interface ProjectRow {
  id: number;
  ref: string;
  uid: string | null;
  complete: boolean;
  /** Seconds since the id was reserved. */
  age: number;
  /** Id of the owner; null: no account owns it. */
  ownerId: number | null;
  /** The address in `spec.owner`, in lower case, as of `generation`. */
  owner: string;
  /** Generation of the Project that this row matches; null: only a release without owner ids has seen it. */
  generation: number | null;
  /** True until `spec.owner` has the owner's present address. */
  followOwner: boolean;
  /** Next step of a transfer: first rotation (1), second rotation (2), end of sessions (3), or none (0). */
  rotationStep: number;
  rotationNumber: number | null;
}

const COLUMNS = `id, ref, uid, complete, extract(epoch from now() - created_at)::float8 as age,
  owner_id as "ownerId", owner, seen_generation as generation, follow_owner as "followOwner",
  rotation_step as "rotationStep",
  rotation_number as "rotationNumber"`;

/** Fields of a Project that gets an id. */
export interface NewRow {
  ref: string;
  uid: string;
  owner: string;
  name: string;
  createdAt: string;
  generation: number;
  retained: boolean;
}

export interface Reservation {
  ref: string;
  ownerId: number;
  name: string;
  maxProjects: number;
  /** Undefined: the project has no machine of its own. */
  maxMachines: number | undefined;
}

/** Constraint name that Postgres gives to `ref text unique`. */
const REF_UNIQUE = 'projects_ref_key';

const nameTaken = (name: string) =>
  new Problem(
    'name_taken',
    `You have a project named ${name}, or one that is being deleted. ` +
      'Choose another name, or wait until that project is deleted.',
    { errors: [{ field: 'name', message: 'is the name of another project of yours' }] },
  );

/** The account's row must be locked. */
async function expectRoomForMachine(em: EntityManager, ownerId: number, most: number): Promise<void> {
  const sql = 'select count(*)::integer as machines from platform.projects where owner_id = ? and has_machine';
  const [{ machines }] = (await em.execute(sql, [ownerId])) as unknown as [{ machines: number }];
  if (machines < most) return;
  const detail =
    `Your account may have ${most} projects with a machine of their own. ` +
    'Delete one, or ask an administrator for a higher limit.';
  throw new Problem('project_limit', detail, {
    errors: [{ field: 'backend_type', message: `the account may have ${most} machines` }],
  });
}

@Injectable()
export class ProjectsRepository {
  constructor(private readonly orm: MikroORM) {}

  /**
   * Reserves an id and a name for a Project that is about to be created. Locks the account's row, so that the limit
   * holds for concurrent creations, and the account is not deleted.
   */
  async reserve({ ref, ownerId, name, maxProjects, maxMachines }: Reservation): Promise<{ id: number; owner: string }> {
    const insert = `
      insert into platform.projects
        (ref, owner, owner_id, last_owner_id, held_name, has_machine, complete, seen_generation)
      select ?, email, id, id, ?, ?, false, 0 from platform.users u
      where id = ? and (select count(*) from platform.projects where owner_id = u.id) < ?
      returning id, owner`;
    try {
      return await this.orm.em.fork().transactional(async (em) => {
        const locked = await em.execute('select from platform.users where id = ? for update', [ownerId]);
        if (locked.length === 0) throw new Problem('unauthorized', 'The account was deleted.');
        if (maxMachines !== undefined) await expectRoomForMachine(em, ownerId, maxMachines);
        const values = [ref, name, maxMachines !== undefined, ownerId, maxProjects];
        const [row] = (await em.execute(insert, values)) as { id: number; owner: string }[];
        if (row) return row;
        const detail =
          `Your account has reached its limit of ${maxProjects} projects. ` +
          `Delete one, or ask an administrator for a higher limit.`;
        throw new Problem('project_limit', detail);
      });
    } catch (error) {
      if (!(error instanceof UniqueConstraintViolationException)) throw error;
      if ((error as { constraint?: string }).constraint === REF_UNIQUE)
        throw new RefTaken('another project has the ref');
      throw nameTaken(name);
    }
  }

  /**
   * Gives the project another name, and runs `rename` before that is final. Locks the account's row as `reserve` does,
   * so that the name is not given twice. If `rename` fails, the row is as before.
   */
  async rename<T>({ id, ownerId, name }: { id: number; ownerId: number; name: string }, rename: () => Promise<T>) {
    const taken = 'select from platform.projects where owner_id = ? and held_name = ? and id <> ?';
    return this.orm.em.fork().transactional(async (em) => {
      await em.execute('select from platform.users where id = ? for update', [ownerId]);
      if ((await em.execute(taken, [ownerId, name, id])).length > 0) throw nameTaken(name);
      await em.execute('update platform.projects set held_name = ? where id = ?', [name, id]);
      return rename();
    });
  }

  async markCreated(id: number, uid: string): Promise<void> {
    await this.rows('update platform.projects set uid = ?, complete = true where id = ? returning id', [uid, id]);
  }

  async markComplete(id: number): Promise<void> {
    await this.rows('update platform.projects set complete = true where id = ? returning id', [id]);
  }

  /**
   * Gives the Project an id, or records its uid if it has one. Another Project under the same ref gets its own id.
   * `replaced` is the uid of a deleted predecessor. A row of any other uid is newer than the caller's cache, and stays.
   */
  async adopt(project: NewRow, replaced: string | null): Promise<void> {
    const { ref, uid, owner, name, createdAt, generation, retained } = project;
    if (replaced !== null) {
      await this.rows('delete from platform.projects where ref = ? and uid = ? returning id', [ref, replaced]);
    }
    await this.rows(
      `insert into platform.projects (ref, uid, owner, held_name, complete, owner_since, seen_generation, retained)
       select ?, ?, owner, case when taken then null else name end, true, ?::timestamptz, ?, ?
       from (values (?, ?)) as wanted (owner, name),
         lateral (select exists (
           select from platform.projects p where p.owner = wanted.owner and p.held_name = wanted.name
         )) as others (taken)
       on conflict (ref) do update set uid = excluded.uid where projects.uid is null
       returning id`,
      [ref, uid, createdAt, generation, retained, owner, name],
    );
  }

  async byId(id: number): Promise<ProjectRow | undefined> {
    const [row] = await this.rows<ProjectRow>(`select ${COLUMNS} from platform.projects where id = ?`, [id]);
    return row;
  }

  all(): Promise<ProjectRow[]> {
    return this.rows<ProjectRow>(`select ${COLUMNS} from platform.projects`, []);
  }

  /** Returns projects with pending changes: `spec.owner` must be updated, or credentials rotated. */
  pending(): Promise<{ id: number; ref: string }[]> {
    return this.rows('select id, ref from platform.projects where follow_owner or rotation_step > 0 order by id', []);
  }

  /** Frees the id and the name of a deleted Project, unless the row belongs to another Project by now. */
  async removeGone(id: number, uid: string | null): Promise<void> {
    const sql = 'delete from platform.projects where id = ? and uid is not distinct from ? returning id';
    await this.rows(sql, [id, uid]);
  }

  async remove(id: number): Promise<void> {
    await this.rows('delete from platform.projects where id = ? returning id', [id]);
  }

  private rows<T>(sql: string, values: unknown[]): Promise<T[]> {
    return this.orm.em.fork().execute(sql, values) as unknown as Promise<T[]>;
  }
}
