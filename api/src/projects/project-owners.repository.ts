/**
 * Which account owns which Project: `platform.projects.owner_id`. The address in `spec.owner` decides it once, when the
 * address is first seen there; afterwards the account's id is what counts. Every update names the generation that it
 * read, so that a replica with an older cache changes nothing.
 */
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';

/** The part of a Project's spec that the API stores, and its generation. */
export interface SeenSpec {
  owner: string;
  name: string;
  retained: boolean;
  generation: number;
}

/** A project that changed hands. */
export interface Assignment {
  id: number;
  ref: string;
  ownerId: number;
  /** Address of the account. */
  email: string;
  /** Null: no account owned it before. */
  lastOwnerId: number | null;
}

/**
 * The account may own what is named after its address: it proved the address, and nobody else had the address before.
 * Where addresses are proved, whoever had it without proof may be a stranger, and does not count. Its values: whether
 * they are proved, twice.
 */
const MAY_INHERIT = `
  u.disabled_at is null and (u.email_verified_at is not null or not ?::boolean)
  and not exists (
    select from platform.former_addresses f
    where f.address = u.email and f.user_id is distinct from u.id and (f.verified or not ?::boolean)
  )
  and not exists (select from platform.retained_projects r where r.ref = p.ref and r.owner_id <> u.id)`;

/** Only a change of hands between two accounts rotates the project's credentials. */
const HAND_OVER = `
  rotation_step = case when p.last_owner_id is distinct from u.id and p.last_owner_id is not null then 1
    else p.rotation_step end,
  rotation_number = case when p.last_owner_id is distinct from u.id then null else p.rotation_number end,
  last_owner_id = u.id`;

/** The name that the row has, unless another project of the address has it. Its value: the address. */
const FREE_NAME = `
  case when exists (
    select from platform.projects other where other.owner = ? and other.held_name = p.held_name and other.id <> p.id
  ) then null else p.held_name end`;

/** Its values: the ref and the address. */
export const ASSIGN = `
  with before as (select id, last_owner_id, owner_id from platform.projects where ref = ? for update)
  update platform.projects p set owner_id = u.id, follow_owner = true, owner_since = now(), ${HAND_OVER}
  from platform.users u, before
  where before.id = p.id and u.email = ? and u.disabled_at is null
  returning p.id, p.ref, u.id as "ownerId", u.email, before.last_owner_id as "lastOwnerId"`;

@Injectable()
export class ProjectOwnersRepository {
  constructor(private readonly orm: MikroORM) {}

  /** The projects that the account owns. */
  ownedBy(userId: number): Promise<{ id: number; ref: string; uid: string | null }[]> {
    return this.rows('select id, ref, uid from platform.projects where owner_id = ?', [userId]);
  }

  /**
   * For rows of a release that compared addresses at each request: whoever has the address now owns the project, as
   * before.
   */
  async settle(id: number, spec: SeenSpec): Promise<void> {
    await this.rows(
      `update platform.projects p set owner = ?, retained = ?, seen_generation = ?, owner_since = now(),
         owner_id = (select u.id from platform.users u where u.email = ?),
         last_owner_id = (select u.id from platform.users u where u.email = ?), held_name = ${FREE_NAME}
       where id = ? and seen_generation is null returning id`,
      [spec.owner, spec.retained, spec.generation, spec.owner, spec.owner, spec.owner, id],
    );
  }

  /** The spec changed, and `spec.owner` names the address that is known, or one of the same account. */
  async keepOwner(id: number, spec: SeenSpec): Promise<void> {
    await this.rows(
      `update platform.projects set owner = ?, retained = ?, seen_generation = ?
       where id = ? and seen_generation < ? returning id`,
      [spec.owner, spec.retained, spec.generation, id, spec.generation],
    );
  }

  /**
   * The spec changed, and names an address that is not the owner's: the owner loses the project now. `claim` finds the
   * next. Nothing changes where the project was assigned since the row was read.
   */
  async dismissOwner({ id, ownerId }: { id: number; ownerId: number | null }, spec: SeenSpec): Promise<void> {
    await this.rows(
      `update platform.projects set owner = ?, retained = ?, seen_generation = ?, owner_id = null, owner_since = now(),
         held_name = null
       where id = ? and seen_generation < ? and not follow_owner and owner_id is not distinct from ?::integer returning id`,
      [spec.owner, spec.retained, spec.generation, id, spec.generation, ownerId],
    );
  }

  /** The name by which the owner knows it, unless another project of the address holds that name. */
  async keepName(id: number, name: string): Promise<void> {
    await this.rows(
      `update platform.projects p set held_name = case when exists (
         select from platform.projects other where other.owner = p.owner and other.held_name = ? and other.id <> p.id
       ) then null else ? end
       where id = ? and held_name is distinct from ? returning id`,
      [name, name, id, name],
    );
  }

  async addressOf(userId: number): Promise<string> {
    const [row] = await this.rows<{ email: string }>('select email from platform.users where id = ?', [userId]);
    return (row as { email: string }).email;
  }

  /** `spec.owner` has the account's address now; no more to do, unless the account has yet another by now. */
  async followed(id: number, ownerId: number, spec: SeenSpec): Promise<void> {
    await this.rows(
      `update platform.projects p set owner = ?, retained = ?, seen_generation = greatest(seen_generation, ?),
         follow_owner = false,
         held_name = ${FREE_NAME}
       from platform.users u
       where p.id = ? and p.owner_id = ? and u.id = p.owner_id and u.email = ? returning p.id`,
      [spec.owner, spec.retained, spec.generation, spec.owner, id, ownerId, spec.owner],
    );
  }

  /** The number of the rotation that a transfer asks for: the one that was chosen before, or `number`. */
  async numberRotation(id: number, number: number): Promise<number | undefined> {
    const [row] = await this.rows<{ rotation_number: number }>(
      `update platform.projects set rotation_number = coalesce(rotation_number, ?) where id = ? and rotation_step > 0
       returning rotation_number`,
      [number, id],
    );
    return row?.rotation_number;
  }

  /** Steps follow one another, unless the project changed hands again meanwhile. */
  async setRotationStep(id: number, step: 0 | 2 | 3): Promise<void> {
    await this.rows(
      `update platform.projects set rotation_step = ?, rotation_number = case when ? = 0 then null else rotation_number end
       where id = ? and rotation_step = ? and rotation_number is not null returning id`,
      [step, step, id, step === 0 ? 3 : step - 1],
    );
  }

  /** Projects that no account owns, and the address that each names. */
  unassigned(): Promise<{ ref: string; owner: string }[]> {
    return this.rows('select ref, owner from platform.projects where owner_id is null order by id limit 1000', []);
  }

  /**
   * Gives the project to the account, as an administrator says; `spec.owner` follows. Undefined where there is no such
   * project or account. The name must not be one that the account uses.
   */
  async assign(ref: string, email: string, name: string): Promise<Assignment | undefined> {
    const em = this.orm.em.fork();
    return em.transactional(async () => {
      const [taken] = (await em.execute(
        `select from platform.projects p join platform.users u on u.id = p.owner_id or u.email = p.owner
         where u.email = ? and p.held_name = ? and p.ref <> ? limit 1`,
        [email, name, ref],
      )) as object[];
      if (taken) throw new Problem('name_taken', `The account has a project named ${name}. Change spec.name first.`);
      const [assigned] = (await em.execute(ASSIGN, [ref, email])) as [Assignment | undefined];
      return assigned;
    });
  }

  /** Whether the address is the account's, or was. */
  async isAddressOf(userId: number, address: string): Promise<boolean> {
    const rows = await this.rows(
      `select from platform.users where id = ? and email = ?
       union all select from platform.former_addresses where user_id = ? and address = ? limit 1`,
      [userId, address, userId, address],
    );
    return rows.length > 0;
  }

  /**
   * Assigns projects without an owner to the accounts that had the address before the project named it. `verifiedOnly`:
   * to those alone that have proved it.
   */
  claim(verifiedOnly: boolean): Promise<Assignment[]> {
    return this.rows<Assignment>(
      `with before as (select id, last_owner_id from platform.projects where owner_id is null for update)
       update platform.projects p set owner_id = u.id, follow_owner = p.follow_owner or u.email <> p.owner, ${HAND_OVER}
       from platform.users u, before
       where before.id = p.id and p.owner_id is null and p.uid is not null and p.seen_generation is not null
         -- Two clocks, one of which counts whole seconds.
         and date_trunc('second', u.email_since) <= p.owner_since + interval '5 s'
         and (u.email = p.owner or exists (
           select from platform.retained_projects r
           join platform.former_addresses f on f.user_id = r.owner_id
           where r.ref = p.ref and r.owner_id = u.id and f.address = p.owner
         ))
         and ${MAY_INHERIT}
       returning p.id, p.ref, u.id as "ownerId", u.email, before.last_owner_id as "lastOwnerId"`,
      [verifiedOnly, verifiedOnly],
    );
  }

  /**
   * Records what a deleted Project leaves: its retained data, or nothing, which also ends earlier retention for its
   * owner.
   */
  async noteRemoval(id: number): Promise<void> {
    await this.rows(
      `with gone as (select ref, coalesce(owner_id, last_owner_id) as owner_id, retained from platform.projects where id = ?),
         kept as (
           insert into platform.retained_projects (ref, owner_id)
           select ref, owner_id from gone where retained and exists (select from platform.users u where u.id = owner_id)
           on conflict (ref) do nothing
         )
       delete from platform.retained_projects r using gone
       where not gone.retained and r.ref = gone.ref and r.owner_id = gone.owner_id returning r.ref`,
      [id],
    );
  }

  private rows<T>(sql: string, values: unknown[]): Promise<T[]> {
    return this.orm.em.fork().execute(sql, values) as unknown as Promise<T[]>;
  }
}
