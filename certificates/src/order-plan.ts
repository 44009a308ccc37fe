/**
 * Decides which certificate is ordered next. In: the hosts that need one, the recorded state of each, and the orders of
 * the last day. Out: one host, or undefined if none is due. Pure.
 */
import { type Backoff, delayOf } from '@slipway/program';
import type { Validity } from './folder.js';

export const DAY_MS = 24 * 60 * 60_000;
const MINUTE_MS = 60_000;

/**
 * Maximum number of orders in a day. Let's Encrypt issues 50 certificates a week for one registered domain, and accepts
 * 300 orders in three hours (https://letsencrypt.org/docs/rate-limits/). The authority's own limits apply in addition.
 */
export const ORDERS_A_DAY = 50;
/** Maximum number of orders in a day for hosts without a certificate. The other orders are left for renewals. */
export const NEW_ORDERS_A_DAY = 40;
/**
 * Maximum number of orders in a day for new hosts of one account, so that an account that makes and deletes projects
 * gets no more. The platform's own host has no account.
 */
export const NEW_ORDERS_OF_ACCOUNT_A_DAY = 10;

/** Delays after failed orders of a host. Let's Encrypt allows five failed validations of one host in an hour. */
const BACKOFF: Backoff = { firstMs: 15 * MINUTE_MS, maxMs: DAY_MS, jitter: 0.2 };

export interface WantedHost {
  host: string;
  /** The account that owns the project; undefined: the host is the platform's own. */
  account: string | undefined;
}

export interface PlacedOrder {
  /** Time of the order, in milliseconds since 1970. */
  at: number;
  account?: string;
  renewal: boolean;
}

export interface Attempts {
  failures: number;
  /** Time of the next attempt, in milliseconds since 1970. */
  nextAt: number;
  /** The authority's last report. */
  problem: string;
}

export interface Known {
  validity(host: string): Validity | undefined;
  attempts(host: string): Attempts | undefined;
  placed: readonly PlacedOrder[];
}

/** A certificate is renewed when a third of its lifetime is left, as Let's Encrypt recommends. */
export const renewalAt = ({ notBefore, notAfter }: Validity): number => notAfter - (notAfter - notBefore) / 3;

export const failedAgain = (before: Attempts | undefined, problem: string, now: number, random = Math.random) => {
  const failures = (before?.failures ?? 0) + 1;
  return { failures, nextAt: now + delayOf(BACKOFF, failures, random), problem };
};

/**
 * Maximum milliseconds until the next order for a host, as an authority's Retry-After may say. A later time was
 * recorded by a clock that was wrong.
 */
export const MOST_WAIT_MS = 7 * DAY_MS;

/** True if `until` has not come, and is no farther than `mostMs`. */
export const isAhead = (until: number, now: number, mostMs: number): boolean => until > now && until <= now + mostMs;

/** Returns the orders of the last day. Orders that a clock in the future recorded are left out. */
export const ofLastDay = (placed: readonly PlacedOrder[], now: number): PlacedOrder[] =>
  placed.filter(({ at }) => Math.abs(now - at) < DAY_MS);

/**
 * Renewals come first, the one that ends first before the others; then new hosts in the order of `wanted`. It runs at
 * each look, so that it passes over the hosts once.
 */
export function nextOrder(wanted: readonly WantedHost[], known: Known, now: number): WantedHost | undefined {
  const placed = ofLastDay(known.placed, now);
  if (placed.length >= ORDERS_A_DAY) return undefined;
  const hasNewOrder = newOrders(placed);
  // While the platform's own host is refused, as with a closed port 80, orders for projects would use up the day.
  const isReachable = !wanted.some((each) => each.account === undefined && known.validity(each.host) === undefined);
  let renewed: WantedHost | undefined;
  let firstEnd = Number.POSITIVE_INFINITY;
  let added: WantedHost | undefined;
  for (const each of wanted) {
    if (isAhead(known.attempts(each.host)?.nextAt ?? 0, now, MOST_WAIT_MS)) continue;
    const validity = known.validity(each.host);
    if (validity === undefined) {
      if (added === undefined && (isReachable || each.account === undefined) && hasNewOrder(each)) added = each;
    } else if (renewalAt(validity) <= now && validity.notAfter < firstEnd) {
      renewed = each;
      firstEnd = validity.notAfter;
    }
  }
  return renewed ?? added;
}

/** Returns a function that is true for a host whose account may have a new certificate today. */
function newOrders(placed: readonly PlacedOrder[]): (host: WantedHost) => boolean {
  const added = placed.filter(({ renewal }) => !renewal);
  const ofAccounts = new Map<string | undefined, number>();
  for (const { account } of added) ofAccounts.set(account, (ofAccounts.get(account) ?? 0) + 1);
  return ({ account }) =>
    account === undefined ||
    (added.length < NEW_ORDERS_A_DAY && (ofAccounts.get(account) ?? 0) < NEW_ORDERS_OF_ACCOUNT_A_DAY);
}
