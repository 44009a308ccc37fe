/**
 * Limits on attempts to prove a password. Failures count by account and network, so that wrong passwords from elsewhere
 * lock nobody out. Networks that never signed in to an account share a further limit, against guessing from many of
 * them.
 */
import { Injectable } from '@nestjs/common';
import { retryLater } from '../http/problem.js';
import { RateLimit } from './rate-limit.js';

@Injectable()
export class SignInLimits {
  /** All attempts to register or sign in of one network. */
  private readonly byNetwork = new RateLimit(120, 60);
  /** Failed attempts on one account of one network. */
  private readonly byAccountAndNetwork = new RateLimit(10, 6);
  /** Failed attempts on one account of all networks that never signed in to it. */
  private readonly byAccount = new RateLimit(100, 12);

  /** Changes of address that mail a link to an address that the account has not proved. */
  private readonly mailsByAccount = new RateLimit(10, 0.2);
  private readonly mailsByNetwork = new RateLimit(30, 1);

  /** Counts an attempt of any kind. */
  admit(network: string): void {
    take(this.byNetwork, network);
  }

  /** Counts a failure in advance; `succeed` takes it back. */
  admitPassword(account: string, network: string, knowsNetwork: boolean): void {
    take(this.byAccountAndNetwork, pairOf(account, network));
    if (!knowsNetwork) take(this.byAccount, account);
  }

  /** Counts a link that the account has mailed to an address of its choice. */
  admitMail(account: number, network: string): void {
    take(this.mailsByAccount, String(account));
    take(this.mailsByNetwork, network);
  }

  succeed(account: string, network: string, knowsNetwork: boolean): void {
    this.byAccountAndNetwork.giveBack(pairOf(account, network));
    if (!knowsNetwork) this.byAccount.giveBack(account);
  }
}

const pairOf = (account: string, network: string) => `${account} ${network}`;

function take(limit: RateLimit, key: string): void {
  const wait = limit.take(key);
  if (wait > 0) throw retryLater('too_many_requests', 'Too many attempts. Wait before you try again.', wait);
}
