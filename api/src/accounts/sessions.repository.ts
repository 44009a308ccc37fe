/** Sessions of accounts, one for each user token, and the networks that accounts signed in from. */
import { type EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { User } from '../callers/user.entity.js';
import { Outbox } from '../outbox/outbox.js';
import type { Origin } from './origin.js';
import { Session } from './session.entity.js';

/** Maximum number of sessions of an account. A new session beyond this number ends the oldest. */
export const SESSIONS_PER_USER = 50;
/**
 * Maximum number of known networks of an account. A new network beyond this number replaces the one that was unused for
 * longest.
 */
const NETWORKS_PER_USER = 20;

/** Fields of an account that a sign-in needs. */
export interface SignInAccount {
  user: User;
  /** True if the account signed in from this network before. */
  knowsNetwork: boolean;
}

@Injectable()
export class SessionsRepository {
  constructor(
    private readonly orm: MikroORM,
    private readonly outbox: Outbox,
  ) {}

  async byEmail(email: string, network: string): Promise<SignInAccount | undefined> {
    const em = this.orm.em.fork();
    // One statement for any address, so that an unknown address takes as long as a known one.
    const [row] = (await em.execute(
      `select u.*, exists (
         select from platform.sign_in_networks n where n.user_id = u.id and n.network = ?
       ) as knows_network from platform.users u where u.email = ?`,
      [network, email],
    )) as [({ knows_network: boolean } & object) | undefined];
    if (!row) return undefined;
    const { knows_network: knowsNetwork, ...fields } = row;
    return { user: em.map(User, fields), knowsNetwork };
  }

  /**
   * Adds a session. Deletes expired ones, and the oldest if the account has too many. Returns undefined if the password
   * was changed after it was verified.
   */
  async add(user: User, { network, userAgent }: Origin, expiresAt: Date): Promise<number | undefined> {
    const em = this.orm.em.fork();
    const [row] = (await em.execute(
      `insert into platform.sessions (user_id, network, user_agent, expires_at)
       select id, ?, ?, ? from platform.users where id = ? and password_hash = ? for share returning id`,
      [network, userAgent, expiresAt, user.id, user.passwordHash],
    )) as [{ id: number } | undefined];
    await em.execute(
      `delete from platform.sessions where user_id = ? and (expires_at <= now() or id not in (
         select id from platform.sessions where user_id = ? order by id desc limit ?
       )) returning id`,
      [user.id, user.id, SESSIONS_PER_USER],
    );
    return row?.id;
  }

  /** Returns the account of a session; undefined if the session has ended. */
  async userOf(userId: number, sessionId: number | undefined, em = this.orm.em.fork()): Promise<User | undefined> {
    if (sessionId === undefined)
      return (await em.findOne(User, { id: userId, unnamedSessionsEndedAt: null })) ?? undefined;
    const live = { id: sessionId, user: userId, expiresAt: { $gt: new Date() } };
    const session = (await em.findOne(Session, live, { populate: ['user'] })) as (Session & { user: User }) | null;
    return session?.user;
  }

  of(userId: number): Promise<Session[]> {
    const live = { user: userId, expiresAt: { $gt: new Date() } };
    return this.orm.em.fork().find(Session, live, { orderBy: { id: 'desc' } });
  }

  async end(userId: number, id: number): Promise<boolean> {
    return (await this.orm.em.fork().nativeDelete(Session, { id, user: userId })) > 0;
  }

  /**
   * Records a sign-in. If the account signed in before, but never from this network, the event is added in the same
   * transaction.
   */
  async noteNetwork(userId: number, sessionId: number, { network, userAgent }: Origin): Promise<void> {
    const isNew = await this.orm.em.fork().transactional(async (em) => {
      if (!(await this.addNetwork(em, userId, network))) return false;
      const data = { network, user_agent: userAgent };
      const key = `session-${sessionId}/new-network`;
      return this.outbox.addForAccount(em, userId, { key, type: 'account.signed_in', at: new Date(), data });
    });
    if (isNew) this.outbox.announce();
  }

  private async addNetwork(em: EntityManager, userId: number, network: string): Promise<boolean> {
    const [row] = (await em.execute(
      `with before as (select network from platform.sign_in_networks where user_id = ?),
       noted as (
         insert into platform.sign_in_networks (user_id, network) values (?, ?)
         on conflict (user_id, network) do update set last_used_at = now()
       )
       select exists (select from before) and not exists (select from before where network = ?) as new`,
      [userId, userId, network, network],
    )) as [{ new: boolean }];
    if (row.new)
      await em.execute(
        `delete from platform.sign_in_networks where user_id = ? and network not in (
           select network from platform.sign_in_networks where user_id = ? order by last_used_at desc limit ?
         ) returning network`,
        [userId, userId, NETWORKS_PER_USER],
      );
    return row.new;
  }

  /** Deletes the expired sessions and mailed links of all accounts. */
  async removeExpired(): Promise<void> {
    const em = this.orm.em.fork();
    await em.execute('delete from platform.sessions where expires_at <= now() returning id');
    await em.execute('delete from platform.mail_tokens where expires_at <= now() returning id');
  }
}
