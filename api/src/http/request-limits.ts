/**
 * The request limit of every management route: by network before anything is looked up, and by account once the token
 * is verified. An account's budget is shared by all routes; a costly route takes more of it (`cost` of `@Route`). In:
 * addresses, accounts, costs. Out: a 429 with Retry-After where a budget is spent. Counts are of this process: with
 * several pods of the API each has its own.
 */
import { networkOf, RateLimit } from '../accounts/rate-limit.js';
import { retryLater } from './problem.js';

export interface RequestLimitSettings {
  /** The budget of an account for a minute, which it may spend at once; 0: no limit. */
  perMinute: number;
  /** Loopback addresses are not counted: a reverse proxy on this machine, and the programs and tests of its owner. */
  sparesLoopback: boolean;
  /** Accounts are not counted for requests from loopback: nobody else reaches the platform. */
  sparesLocalAccounts: boolean;
}

/** Accounts behind one network share this many times the budget of one. */
const ACCOUNTS_OF_A_NETWORK = 4;
/** Asked every few seconds by Kubernetes, of no cost. */
const PROBES = new Set(['/healthz', '/readyz']);

export class RequestLimits {
  private readonly byNetwork: RateLimit | undefined;
  private readonly byAccount: RateLimit | undefined;

  constructor(private readonly settings: RequestLimitSettings) {
    const { perMinute } = settings;
    if (perMinute === 0) return;
    const ofNetwork = perMinute * ACCOUNTS_OF_A_NETWORK;
    this.byNetwork = new RateLimit(ofNetwork, ofNetwork);
    this.byAccount = new RateLimit(perMinute, perMinute);
  }

  /** `address` is undefined for a program of the platform, which connects to the Unix socket itself. */
  countRequest(path: string, address: string | undefined): void {
    if (!this.byNetwork || PROBES.has(path) || address === undefined) return;
    if (this.settings.sparesLoopback && isLoopback(address)) return;
    const wait = this.byNetwork.take(networkOf(address));
    if (wait > 0) throw retryLater('too_many_requests', 'Too many requests from this network.', wait);
  }

  countForAccount(userId: number, address: string | undefined, cost: number): void {
    if (!this.byAccount) return;
    const isLocal = address === undefined || isLoopback(address);
    if (isLocal && this.settings.sparesLocalAccounts) return;
    // A route that costs more than the whole budget would never be admitted.
    const wait = this.byAccount.take(String(userId), Math.min(cost, this.settings.perMinute));
    if (wait > 0) throw retryLater('too_many_requests', 'Too many requests of this account.', wait);
  }
}

const isLoopback = (address: string) =>
  address.startsWith('127.') || address === '::1' || address.startsWith('::ffff:127.');
