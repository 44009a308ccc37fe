import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { accountOf, type Login, normalEmail, type Session } from './account.schema.js';
import type { Origin } from './origin.js';
import { Passwords } from './passwords.js';
import { SessionsRepository } from './sessions.repository.js';
import { SignInLimits } from './sign-in-limits.js';
import type { User } from './user.entity.js';
import { UserTokens } from './user-tokens.js';

const SESSION_HOURS = 24;

@Injectable()
export class AccountsService {
  constructor(
    private readonly passwords: Passwords,
    private readonly tokens: UserTokens,
    private readonly sessions: SessionsRepository,
    private readonly limits: SignInLimits,
    private readonly mail: AccountMail,
  ) {}

  async logIn({ email, password }: Login, from: Origin): Promise<Session> {
    this.limits.admit(from.network);
    const user = await this.prove(normalEmail(email), password, from);
    if (user.disabledAt) throw new Problem('account_disabled', 'An administrator disabled this account.');
    return this.session(user, from);
  }

  /** The account of the address, whose password this is. An unknown address takes as long as a wrong password. */
  async prove(email: string, password: string, { network }: Origin): Promise<User> {
    const account = await this.sessions.byEmail(email, network);
    const knowsNetwork = account?.knowsNetwork ?? false;
    this.limits.admitPassword(email, network, knowsNetwork);
    const matched = await this.passwords.matches(account?.user.passwordHash, password, network);
    if (!account || !matched) throw wrongCredentials();
    this.limits.succeed(email, network, knowsNetwork);
    return account.user;
  }

  /** Begins a session. */
  async session(user: User, from: Origin): Promise<Session> {
    // JWTs count whole seconds.
    const expiresAt = new Date((Math.floor(Date.now() / 1000) + SESSION_HOURS * 3600) * 1000);
    const id = await this.sessions.add(user, from, expiresAt);
    if (id === undefined) throw wrongCredentials();
    if (await this.sessions.noteNetwork(user.id, from.network))
      this.mail.post(user.email, letters.signIn(this.mail.publicUrl, from.network, from.userAgent));
    return { ...(await this.tokens.issue(user.id, { id, expiresAt })), user: accountOf(user) };
  }
}

const wrongCredentials = () =>
  new Problem('unauthorized', 'The e-mail address or the password is wrong.', {
    headers: { 'www-authenticate': 'Bearer' },
  });
