/** Tokens of mailed links and codes, stored as hashes. Each works once, until it expires. */
import { createHash, randomBytes } from 'node:crypto';
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';

export type MailPurpose = 'verify' | 'reset' | 'sign-in';

export interface MailToken {
  id: number;
  userId: number;
  /** The account's current address. */
  email: string;
  /** Address to which the link was sent. */
  address: string;
}

const LASTS_SECONDS: Record<MailPurpose, number> = { verify: 24 * 3600, reset: 3600, 'sign-in': 900 };
/**
 * Maximum number of tokens of an account and purpose. A new token beyond this number deletes only the oldest, so that
 * other earlier links stay valid.
 */
const TOKENS_PER_USER = 10;

const hashOf = (token: string) => createHash('sha256').update(token).digest();

@Injectable()
export class MailTokensRepository {
  constructor(private readonly orm: MikroORM) {}

  async add(userId: number, purpose: MailPurpose, address: string, bytes = 32): Promise<string> {
    const token = randomBytes(bytes).toString('base64url');
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

  /** Uses up the account's token. Returns false if there is none, so that only one of two concurrent uses succeeds. */
  async use(userId: number, token: string, purpose: MailPurpose): Promise<boolean> {
    const rows = (await this.orm.em
      .fork()
      .execute(
        'delete from platform.mail_tokens where user_id = ? and hash = ? and purpose = ? and expires_at > now() ' +
          'returning id',
        [userId, hashOf(token), purpose],
      )) as object[];
    return rows.length > 0;
  }

  /** Returns the token; undefined if it is unknown, used or expired, or if its account is disabled. */
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
