/**
 * Limits on attempts to prove a password. Failures count by account and network, so that wrong passwords from elsewhere
 * lock nobody out. Networks that never signed in to an account also share one limit, against guesses from many
 * networks. When guesses use up that limit, the holder can still log in from a new network: with a mailed code, or, in
 * an installation without mail, by a small reserve for networks without a failure.
 */
import { Injectable } from '@nestjs/common';
import { TokenBuckets } from '@slipway/program';
import { retryLater } from '../http/problem.js';

@Injectable()
export class SignInLimits {
  /** Attempts to register or sign in, by network. */
  private readonly byNetwork = new TokenBuckets({ burst: 120, perSecond: 1 });
  /** Failed attempts, by account and network. */
  private readonly byAccountAndNetwork = new TokenBuckets({ burst: 10, perSecond: 6 / 60 });
  /** Failed attempts by account, of all networks that never signed in to it together. */
  private readonly byAccount = new TokenBuckets({ burst: 100, perSecond: 12 / 60 });
  /** Further attempts by account for networks without a failure: 20 an hour. */
  private readonly reserve = new TokenBuckets({ burst: 20, perSecond: 20 / 3600 });
  /** Networks that failed on an account within an hour. */
  private readonly failures = new TokenBuckets({ burst: 1, perSecond: 1 / 3600 });

  /** Changes of address, which each mail a link to an unproved address. */
  private readonly mailsByAccount = new TokenBuckets({ burst: 10, perSecond: 0.2 / 60 });
  private readonly mailsByNetwork = new TokenBuckets({ burst: 30, perSecond: 1 / 60 });

  /** Counts an attempt of any kind. */
  admit(network: string): void {
    take(this.byNetwork, network);
  }

  /**
   * Counts a failure in advance; `succeeded` reverts it. `mails` is true if a code can be mailed to the account: a
   * right guess without the code then does not log in.
   */
  admitPassword(account: string, network: string, { knowsNetwork, mails }: Admitted): Admission {
    const pair = pairOf(account, network);
    take(this.byAccountAndNetwork, pair);
    const admission = (needsCode: boolean, limit?: TokenBuckets): Admission => ({
      needsCode,
      succeeded: () => {
        this.byAccountAndNetwork.of(pair).giveBack();
        limit?.of(account).giveBack();
      },
      failed: () => void this.failures.of(pair).take(),
    });
    if (knowsNetwork) return admission(false);
    const wait = this.byAccount.of(account).take();
    if (wait === 0) return admission(false, this.byAccount);
    if (mails) return admission(true);
    if (this.failures.of(pair).wait() > 0) throw tooMany(wait);
    take(this.reserve, account);
    return admission(false, this.reserve);
  }

  /** Counts a link to an address that the account entered. */
  admitMail(account: number, network: string): void {
    take(this.mailsByAccount, String(account));
    take(this.mailsByNetwork, network);
  }
}

export interface Admitted {
  /** True if the account was signed in to from this network before. */
  knowsNetwork: boolean;
  mails: boolean;
}

export interface Admission {
  /** True if the caller must also send a mailed code. */
  needsCode: boolean;
  succeeded(): void;
  failed(): void;
}

const pairOf = (account: string, network: string) => `${account} ${network}`;

function take(limit: TokenBuckets, key: string): void {
  const wait = limit.of(key).take();
  if (wait > 0) throw tooMany(wait);
}

const tooMany = (wait: number) =>
  retryLater('too_many_requests', 'Too many attempts. Wait before you try again.', wait);
