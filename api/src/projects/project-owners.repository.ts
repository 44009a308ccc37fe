/**
 * Owners of Projects (`platform.projects.owner_id`). The address in `spec.owner` decides the owner once, when it first
 * appears there; from then on the account's id counts. Every update names the generation that it read, so that a
 * replica with an older cache changes nothing.
 */
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { noteLoss } from '../accounts/lost-projects.repository.js';
import { Problem } from '../http/problem.js';

/** Fields of a Project's spec that the API stores, and its generation. */
export interface SeenSpec {
  owner: string;
  name: string;
  retained: boolean;
  generation: number;
}

/** A project that was assigned to another account. */
export interface Assignment {
  id: number;
  ref: string;
  ownerId: number;
  /** Address of the new owner. */
  email: string;
  /** Former owner; null: no account owned it before. */
  lastOwnerId: number | null;
}

/** An assignment by an administrator. */
export interface AdministratorsAssignment extends Assignment {
  /** Address of the owner until now, if it is another account. */
  formerOwner: string | null;
}

/**
 * SQL condition: the account may inherit what is named after its address. It proved the address, and no other account
 * had the address before. Where addresses are verified, an unverified former holder may be a stranger, and does not
 * count. Values: `verifiedOnly`, twice.
 */
const MAY_INHERIT = `
  u.disabled_at is null and (u.email_verified_at is not null or not ?::boolean)
  and not exists (
    select from platform.former_addresses f
    where f.address = u.email and f.user_id is distinct from u.id and (f.verified or not ?::boolean)
  )
  and not exists (select from platform.retained_projects r where r.ref = p.ref and r.owner_id <> u.id)`;

/** SQL: begins a rotation of the credentials if the project changes from one account to another. */
const HAND_OVER = `
  rotation_step = case when p.last_owner_id is distinct from u.id and p.last_owner_id is not null then 1
    else p.rotation_step end,
  rotation_number = case when p.last_owner_id is distinct from u.id then null else p.rotation_number end,
  last_owner_id = u.id`;

/** SQL: the row's name; null if another project of the address has it. Value: the address. */
const FREE_NAME = `
  case when exists (
    select from platform.projects other where other.owner = ? and other.held_name = p.held_name and other.id <> p.id
  ) then null else p.held_name end`;

/** SQL that assigns a project. Values: the ref and the address. */
export const ASSIGN = `
  with before as (select id, ref, last_owner_id, owner_id from platform.projects where ref = ? for update),
  assigned as (
    update platform.projects p set owner_id = u.id, follow_owner = true, owner_since = now(), ${HAND_OVER}
    from platform.users u, before
    where before.id = p.id and u.email = ? and u.disabled_at is null
    returning p.id, p.ref, u.id as "ownerId", u.email, before.last_owner_id as "lastOwnerId"
  ),
  lost as (
    select before.owner_id as user_id, before.ref from before join assigned using (id)
    where before.owner_id <> assigned."ownerId"
  ),
  noted as (${noteLoss('assigned', 'lost')}),
  regained as (delete from platform.lost_projects l using assigned a where l.user_id = a."ownerId" and l.ref = a.ref)
  select assigned.*, (select u.email from platform.users u join lost on lost.user_id = u.id) as "formerOwner"
  from assigned`;

@Injectable()
export class ProjectOwnersRepository {
  constructor(private readonly orm: MikroORM) {}

  /** Returns the projects that the account owns. */
  ownedBy(userId: number): Promise<{ id: number; ref: string; uid: string | null }[]> {
    return this.rows('select id, ref, uid from platform.projects where owner_id = ?', [userId]);
  }

  /**
   * Migrates a row of a release without owner ids: the account that has the address now owns the project, as before.
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

  /** Records a changed spec whose `spec.owner` names the same account. */
  async keepOwner(id: number, spec: SeenSpec): Promise<void> {
    await this.rows(
      `update platform.projects set owner = ?, retained = ?, seen_generation = ?
       where id = ? and seen_generation < ? returning id`,
      [spec.owner, spec.retained, spec.generation, id, spec.generation],
    );
  }

  /**
   * Records a changed spec whose `spec.owner` names another account's address: the project has no owner until `claim`.
   * Changes nothing if the project was assigned since the row was read.
   */
  async dismissOwner({ id, ownerId }: { id: number; ownerId: number | null }, spec: SeenSpec): Promise<void> {
    await this.rows(
      `with lost as (
         update platform.projects set owner = ?, retained = ?, seen_generation = ?, owner_id = null,
           owner_since = now(), held_name = null
         where id = ? and seen_generation < ? and not follow_owner and owner_id is not distinct from ?::integer
         returning ref, ?::integer as user_id
       )
       ${noteLoss('spec', 'lost where user_id is not null')} returning ref`,
      [spec.owner, spec.retained, spec.generation, id, spec.generation, ownerId, ownerId],
    );
  }

  /** Records the name under which the owner knows the project, unless another project of the owner has it. */
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

  /** Records that `spec.owner` has the account's address, unless the account's address changed again. */
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

  /**
   * Returns the number of the rotation that a transfer requests: the recorded one, or else `number`, which it records.
   */
  async numberRotation(id: number, number: number): Promise<number | undefined> {
    const [row] = await this.rows<{ rotation_number: number }>(
      `update platform.projects set rotation_number = coalesce(rotation_number, ?) where id = ? and rotation_step > 0
       returning rotation_number`,
      [number, id],
    );
    return row?.rotation_number;
  }

  /** Moves to the next step, unless the project has changed hands again. */
  async setRotationStep(id: number, step: 0 | 2 | 3): Promise<void> {
    await this.rows(
      `update platform.projects
       set rotation_step = ?, rotation_number = case when ? = 0 then null else rotation_number end
       where id = ? and rotation_step = ? and rotation_number is not null returning id`,
      [step, step, id, step === 0 ? 3 : step - 1],
    );
  }

  /** Ends the transfer of a project without a database, which has one step. */
  async endRotation(id: number): Promise<void> {
    await this.rows(
      'update platform.projects set rotation_step = 0, rotation_number = null where id = ? and rotation_step > 0 ' +
        'returning id',
      [id],
    );
  }

  /** Returns projects that no account owns, with the address of each. */
  unassigned(): Promise<{ ref: string; owner: string }[]> {
    return this.rows('select ref, owner from platform.projects where owner_id is null order by id limit 1000', []);
  }

  /**
   * Assigns the project to the account for an administrator; `spec.owner` is updated afterwards. Returns undefined if
   * the project or the account does not exist. Fails if the account has a project of that name.
   */
  async assign(ref: string, email: string, name: string): Promise<AdministratorsAssignment | undefined> {
    const em = this.orm.em.fork();
    return em.transactional(async () => {
      const [taken] = (await em.execute(
        `select from platform.projects p join platform.users u on u.id = p.owner_id or u.email = p.owner
         where u.email = ? and p.held_name = ? and p.ref <> ? limit 1`,
        [email, name, ref],
      )) as object[];
      if (taken) throw new Problem('name_taken', `The account has a project named ${name}. Change spec.name first.`);
      const [assigned] = (await em.execute(ASSIGN, [ref, email])) as [AdministratorsAssignment | undefined];
      return assigned;
    });
  }

  /** True if the address is the account's, or was. */
  async isAddressOf(userId: number, address: string): Promise<boolean> {
    const rows = await this.rows(
      `select from platform.users where id = ? and email = ?
       union all select from platform.former_addresses where user_id = ? and address = ? limit 1`,
      [userId, address, userId, address],
    );
    return rows.length > 0;
  }

  /**
   * Assigns projects without an owner to the accounts that had the address before the project named it. With
   * `verifiedOnly`, the account must have proved the address.
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
   * Records whether a deleted Project leaves retained data. If it leaves none, an earlier record for its owner is
   * deleted.
   */
  async noteRemoval(id: number): Promise<void> {
    await this.rows(
      `with gone as (select ref, coalesce(owner_id, last_owner_id) as owner_id, retained
         from platform.projects where id = ?),
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
