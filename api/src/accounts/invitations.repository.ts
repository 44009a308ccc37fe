/** Invitations: only a hash of the code is kept. Used ones and expired ones are dropped a month after they ended. */
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';

export interface InvitationRow {
  id: number;
  email: string | null;
  created_at: Date | string;
  expires_at: Date | string;
  used_at: Date | string | null;
}

/** Of administrators, and again as many that addresses of a listed mail domain asked for. */
export const MOST_INVITATIONS = 1000;

const COLUMNS = 'id, email, created_at, expires_at, used_at';

@Injectable()
export class InvitationsRepository {
  constructor(private readonly orm: MikroORM) {}

  list(): Promise<InvitationRow[]> {
    return this.rows(`select ${COLUMNS} from platform.invitations order by id desc limit ${2 * MOST_INVITATIONS}`, []);
  }

  /** Undefined if there are too many. */
  async add(
    createdBy: number,
    hash: Buffer,
    email: string | null,
    seconds: number,
  ): Promise<InvitationRow | undefined> {
    await this.rows(
      `delete from platform.invitations where least(used_at, expires_at) < now() - interval '30 days' returning id`,
      [],
    );
    const [row] = await this.rows(
      `insert into platform.invitations (hash, email, created_by, expires_at)
       select ?, ?, ?, now() + make_interval(secs => ?)
       where (select count(*) from platform.invitations where created_by is not null) < ${MOST_INVITATIONS}
       returning ${COLUMNS}`,
      [hash, email, createdBy, seconds],
    );
    return row;
  }

  /**
   * An invitation that the address itself asked for, in place of an earlier one. False if the address has an account, or too many
   * addresses asked.
   */
  async addRequested(hash: Buffer, email: string, seconds: number): Promise<boolean> {
    await this.rows(
      `delete from platform.invitations
       where created_by is null and (expires_at < now() or (email = ? and used_at is null)) returning id`,
      [email],
    );
    const added = await this.rows(
      `insert into platform.invitations (hash, email, expires_at)
       select ?, ?, now() + make_interval(secs => ?)
       where (select count(*) from platform.invitations where created_by is null) < ${MOST_INVITATIONS}
         and not exists (select from platform.users where email = ?)
       returning ${COLUMNS}`,
      [hash, email, seconds, email],
    );
    return added.length > 0;
  }

  async remove(id: number): Promise<boolean> {
    return (await this.rows('delete from platform.invitations where id = ? returning id', [id])).length > 0;
  }

  private rows(sql: string, values: unknown[]): Promise<InvitationRow[]> {
    return this.orm.em.fork().execute(sql, values) as unknown as Promise<InvitationRow[]>;
  }
}
