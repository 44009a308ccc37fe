import { Injectable } from '@nestjs/common';
import { normalAddress } from '@slipway/crds';
import { accountOf } from '../callers/account.js';
import type { User } from '../callers/user.entity.js';
import { Problem } from '../http/problem.js';
import { AccountMail } from '../mail/account-mail.js';
import { type Login, type Session } from './account.schema.js';
import type { Origin } from './origin.js';
import { Passwords } from './passwords.js';
import { SessionsRepository } from './sessions.repository.js';
import { SignInCodes } from './sign-in-codes.js';
import { SignInLimits } from './sign-in-limits.js';
import { UserTokens } from './user-tokens.js';

const SESSION_HOURS = 24;

@Injectable()
export class AccountsService {
  constructor(
    private readonly passwords: Passwords,
    private readonly tokens: UserTokens,
    private readonly sessions: SessionsRepository,
    private readonly limits: SignInLimits,
    private readonly codes: SignInCodes,
    private readonly mail: AccountMail,
  ) {}

  async logIn({ email, password, code }: Login, from: Origin): Promise<Session> {
    this.limits.admit(from.network);
    const user = await this.prove(normalAddress(email), password, from, code);
    if (user.disabledAt) throw new Problem('account_disabled', 'An administrator disabled this account.');
    return this.session(user, from);
  }

  /** Returns the account if the password is its own. An unknown address takes as long as a wrong password. */
  async prove(email: string, password: string, { network }: Origin, code?: string): Promise<User> {
    const account = await this.sessions.byEmail(email, network);
    const knowsNetwork = account?.knowsNetwork ?? false;
    const admission = this.limits.admitPassword(email, network, { knowsNetwork, mails: this.mail.isConfigured });
    const matched = await this.passwords.matches(account?.user.passwordHash, password, network);
    if (admission.needsCode) await this.proveCode(matched ? account?.user : undefined, code);
    if (!account || !matched) {
      admission.failed();
      throw wrongCredentials();
    }
    admission.succeeded();
    return account.user;
  }

  /** Mails a code if the password was right. A wrong password gets the same error equally fast. */
  private async proveCode(user: User | undefined, code: string | undefined): Promise<void> {
    if (user && code !== undefined && (await this.codes.use(user.id, code))) return;
    if (user && !user.disabledAt) this.codes.mailCode(user.id, user.email);
    throw new Problem('code_required', CODE_REQUIRED, {
      errors: [{ field: 'code', message: code === undefined ? 'is needed' : 'is not valid, or has expired' }],
    });
  }

  async session(user: User, from: Origin): Promise<Session> {
    // The times of JWTs are whole seconds.
    const expiresAt = new Date((Math.floor(Date.now() / 1000) + SESSION_HOURS * 3600) * 1000);
    const id = await this.sessions.add(user, from, expiresAt);
    if (id === undefined) throw wrongCredentials();
    await this.sessions.noteNetwork(user.id, id, from);
    return { ...(await this.tokens.issue(user.id, { id, expiresAt })), user: accountOf(user) };
  }
}

const CODE_REQUIRED =
  'Too many wrong passwords were tried for this account, so a new network needs a code too. ' +
  'If the password is right, a code was ' +
  'mailed to the address of the account: send it as `code` with POST /auth/login within 15 minutes.';

const wrongCredentials = () =>
  new Problem('unauthorized', 'The e-mail address or the password is wrong.', {
    headers: { 'www-authenticate': 'Bearer' },
  });
