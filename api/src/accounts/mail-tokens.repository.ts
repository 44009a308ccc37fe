/** Tokens of links that were mailed to accounts: only their hashes, each for one use and until it expires. */
import { createHash, randomBytes } from 'node:crypto';
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';

export type MailPurpose = 'verify' | 'reset';

export interface MailToken {
  id: number;
  userId: number;
  /** The account's current address. */
  email: string;
  /** Where the link was sent. */
  address: string;
}

const LASTS_SECONDS: Record<MailPurpose, number> = { verify: 24 * 3600, reset: 3600 };
/** Links of one account and purpose: a further one ends the oldest. A link that was sent before stays valid. */
const TOKENS_PER_USER = 10;

const hashOf = (token: string) => createHash('sha256').update(token).digest();

@Injectable()
export class MailTokensRepository {
  constructor(private readonly orm: MikroORM) {}

  async add(userId: number, purpose: MailPurpose, address: string): Promise<string> {
    const token = randomBytes(32).toString('base64url');
    const em = this.orm.em.fork();
    await em.execute(
      `insert into platform.mail_tokens (user_id, purpose, address, hash, expires_at)
       values (?, ?, ?, ?, now() + make_interval(secs => ?)) returning id`,
      [userId, purpose, address, hashOf(token), LASTS_SECONDS[purpose]],
    );
    await em.execute(
      `delete from platform.mail_tokens where user_id = ? and purpose = ? and id not in (
         select id from platform.mail_tokens where user_id = ? and purpose = ? order by id desc limit ?
       ) returning id`,
      [userId, purpose, userId, purpose, TOKENS_PER_USER],
    );
    return token;
  }

  /** The live token; undefined where there is none, or its account is disabled. */
  async find(token: string, purpose: MailPurpose): Promise<MailToken | undefined> {
    const [row] = (await this.orm.em.fork().execute(
      `select t.id, t.user_id as "userId", u.email, t.address
       from platform.mail_tokens t join platform.users u on u.id = t.user_id
       where t.hash = ? and t.purpose = ? and t.expires_at > now() and u.disabled_at is null`,
      [hashOf(token), purpose],
    )) as [MailToken | undefined];
    return row;
  }
}
