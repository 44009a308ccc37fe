import { isIPv6 } from 'node:net';

/**
 * A burst, then a number a minute, by key, on the monotonic clock. The keys that were unused longest are dropped, so
 * memory is bounded.
 */
export class RateLimit {
  /** By key, when all that was taken will have been given back, in milliseconds of `performance.now()`. */
  private readonly fullAgain = new Map<string, number>();
  private readonly interval: number;

  constructor(
    private readonly burst: number,
    perMinute: number,
    private readonly keys = 10_000,
  ) {
    this.interval = 60_000 / perMinute;
  }

  /** Takes `cost` of the budget. Returns the seconds to wait; 0: taken. */
  take(key: string, cost = 1, now = performance.now()): number {
    const full = Math.max(this.fullAgain.get(key) ?? now, now);
    const wait = full + cost * this.interval - now - this.burst * this.interval;
    if (wait > 0) return wait / 1000;
    this.keep(key, full + cost * this.interval);
    return 0;
  }

  /** Returns a taken unit that turned out not to count. */
  giveBack(key: string): void {
    const full = this.fullAgain.get(key);
    if (full !== undefined) this.keep(key, full - this.interval);
  }

  private keep(key: string, full: number): void {
    this.fullAgain.delete(key);
    this.fullAgain.set(key, full);
    const [longestUnused] = this.fullAgain.keys();
    if (this.fullAgain.size > this.keys && longestUnused !== undefined) this.fullAgain.delete(longestUnused);
  }
}

/**
 * The network that an address is counted by. One customer may have an IPv6 network of 48 bits; an IPv4 address is its
 * own network.
 */
export function networkOf(address = ''): string {
  if (!isIPv6(address)) return address;
  const groups = groupsOf(address);
  const isIPv4 = groups.slice(0, 6).join() === '0,0,0,0,0,65535';
  if (isIPv4)
    return groups
      .slice(6)
      .flatMap((group) => [group >> 8, group & 0xff])
      .join('.');
  return groups
    .slice(0, 3)
    .map((group) => group.toString(16))
    .join(':');
}

function groupsOf(address: string): number[] {
  // Where its end is written as IPv4 addresses are, the parser makes two groups of it.
  const { hostname } = new URL(`http://[${address.replace(/%.*$/, '')}]`);
  const [before = [], after = []] = hostname
    .slice(1, -1)
    .split('::')
    .map((part) => part.split(':').flatMap((group) => (group === '' ? [] : Number.parseInt(group, 16))));
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}
