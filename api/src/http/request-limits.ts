/**
 * Limits requests to every management route: by network before any look-up, and by account once the token is verified.
 * All routes share an account's budget; a costly route uses more of it (`cost` of `@Route`). In: addresses, accounts
 * and costs. Out: a 429 with Retry-After when a budget is used up. Each process counts its own requests, so the budget
 * of the installation is multiplied by the number of the API's pods.
 */
import { isLoopback, networkOf, TokenBuckets } from '@slipway/program';
import type { RequestLimitSettings } from '../settings/settings.js';
import { retryLater } from './problem.js';

/** Budget of a network, as a multiple of the budget of one account: the accounts of a network share it. */
const ACCOUNTS_OF_A_NETWORK = 4;
/** Paths of probes, which Kubernetes requests every few seconds. They do not count against a budget. */
const PROBES = new Set(['/healthz', '/readyz']);

export class RequestLimits {
  private readonly byNetwork: TokenBuckets | undefined;
  private readonly byAccount: TokenBuckets | undefined;

  constructor(private readonly settings: RequestLimitSettings) {
    const { perMinute } = settings;
    if (perMinute === 0) return;
    const ofNetwork = perMinute * ACCOUNTS_OF_A_NETWORK;
    this.byNetwork = new TokenBuckets({ burst: ofNetwork, perSecond: ofNetwork / 60 });
    this.byAccount = new TokenBuckets({ burst: perMinute, perSecond: perMinute / 60 });
  }

  /** Counts a request. `address` is undefined for a program of the platform, which connects to the Unix socket. */
  countRequest(path: string, address: string | undefined): void {
    if (!this.byNetwork || PROBES.has(path) || address === undefined) return;
    if (this.settings.sparesLoopback && isLoopback(address)) return;
    const wait = this.byNetwork.of(networkOf(address)).take();
    if (wait > 0)
      throw retryLater('too_many_requests', 'Too many requests from this network. Wait before you try again.', wait);
  }

  countForAccount(userId: number, address: string | undefined, cost: number): void {
    if (!this.byAccount) return;
    const isLocal = address === undefined || isLoopback(address);
    if (isLocal && this.settings.sparesLocalAccounts) return;
    // A route that costs more than the whole budget would never be admitted.
    const wait = this.byAccount.of(String(userId)).take(Math.min(cost, this.settings.perMinute));
    if (wait > 0)
      throw retryLater('too_many_requests', 'Too many requests of this account. Wait before you try again.', wait);
  }
}
