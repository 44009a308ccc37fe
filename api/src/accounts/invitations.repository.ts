/** Invitations, stored as a hash of their code. Used and expired ones are deleted 30 days later. */
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';

export interface InvitationRow {
  id: number;
  email: string | null;
  created_at: Date | string;
  expires_at: Date | string;
  used_at: Date | string | null;
}

/** Maximum number of open invitations that administrators created. */
export const MOST_INVITATIONS = 1000;
/**
 * Maximum number of invitations a day that addresses of a listed mail domain request: by all callers, by one network,
 * and for one address.
 */
const MOST_REQUESTED = { inAll: 10_000, ofNetwork: 50, ofAddress: 3 };

const COLUMNS = 'id, email, created_at, expires_at, used_at';

@Injectable()
export class InvitationsRepository {
  constructor(private readonly orm: MikroORM) {}

  list(): Promise<InvitationRow[]> {
    return this.rows(
      `select ${COLUMNS} from platform.invitations order by created_by is null, id desc limit ${2 * MOST_INVITATIONS}`,
      [],
    );
  }

  /** Returns undefined if there are too many invitations. */
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
   * Adds an invitation that its address requested. Earlier ones stay valid, so a stranger's request revokes none.
   * Returns false if the address has an account, or if one of the limits (address, network, all) is reached.
   */
  async addRequested(hash: Buffer, email: string, network: string, seconds: number): Promise<boolean> {
    await this.rows(
      'delete from platform.invitations where created_by is null and expires_at < now() returning id',
      [],
    );
    const { inAll, ofNetwork, ofAddress } = MOST_REQUESTED;
    const added = await this.rows(
      `with requested as (
         select count(*) as in_all, count(*) filter (where network = ?) as of_network,
           count(*) filter (where email = ? and used_at is null) as of_address
         from platform.invitations where created_by is null
       )
       insert into platform.invitations (hash, email, network, expires_at)
       select ?, ?, ?, now() + make_interval(secs => ?) from requested
       where in_all < ${inAll} and of_network < ${ofNetwork} and of_address < ${ofAddress}
         and not exists (select from platform.users where email = ?)
       returning ${COLUMNS}`,
      [network, email, hash, email, network, seconds, email],
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
