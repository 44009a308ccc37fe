import { Injectable } from '@nestjs/common';
import { Problem, retryLater } from '../http/problem.js';
import { accountOf, type Login, normalEmail, type Registration, type Session } from './account.schema.js';
import { Passwords } from './passwords.js';
import { networkOf, RateLimit } from './rate-limit.js';
import type { User } from './user.entity.js';
import { UserTokens } from './user-tokens.js';
import { UsersRepository } from './users.repository.js';

@Injectable()
export class AccountsService {
  /** All attempts to register or log in from one address. */
  private readonly byAddress = new RateLimit(120, 60);
  /** Attempts to log in to one account that failed. */
  private readonly byEmail = new RateLimit(10, 6);

  constructor(
    private readonly users: UsersRepository,
    private readonly passwords: Passwords,
    private readonly tokens: UserTokens,
  ) {}

  async register({ email, password, full_name }: Registration, address: string | undefined): Promise<Session> {
    admit(this.byAddress, networkOf(address));
    const user = await this.users.add(normalEmail(email), await this.passwords.hash(password), full_name ?? null);
    return this.session(user);
  }

  async logIn({ email, password }: Login, address: string | undefined): Promise<Session> {
    const key = normalEmail(email);
    admit(this.byAddress, networkOf(address));
    admit(this.byEmail, key);
    const user = await this.users.byEmail(key);
    const matched = await this.passwords.matches(user?.passwordHash, password);
    if (!user || !matched) throw wrongCredentials();
    this.byEmail.giveBack(key);
    return this.session(user);
  }

  private async session(user: User): Promise<Session> {
    return { ...(await this.tokens.issue(user.id)), user: accountOf(user) };
  }
}

function admit(limit: RateLimit, key: string) {
  const wait = limit.take(key);
  if (wait > 0) throw retryLater('too_many_requests', 'Too many attempts. Wait before you try again.', wait);
}

const wrongCredentials = () =>
  new Problem('unauthorized', 'The e-mail address or the password is wrong.', {
    headers: { 'www-authenticate': 'Bearer' },
  });
