/**
 * Finds the addresses of host names that tenants chose. In: a name. Out: its addresses, or the error of the look-up.
 *
 * A look-up occupies a thread of the process until the name server answers or the system gives up, which takes many
 * seconds. Node gives it half of the threads that UV_THREADPOOL_SIZE sets. Names without an answer may thus not occupy
 * all of them: other tenants and the platform itself look names up too.
 */
import { ADDRCONFIG, type LookupAddress, lookup } from 'node:dns';
import { ConcurrencyLimit } from './concurrency-limit.js';

/** Environment of a program that looks up names of many tenants: threads for eight look-ups at once. */
export const LOOKUP_THREADS = { UV_THREADPOOL_SIZE: '16' };

/** Most look-ups at once, of all names and of one domain. Two of the eight stay for the platform's own names. */
const AT_ONCE = { most: 6, ofOne: 2, waiting: 256, waitingOfOne: 32 };

export class HostLookups {
  private readonly limit = new ConcurrencyLimit(
    AT_ONCE,
    (_, domain) => new Error(`too many host names of ${domain}, or of all domains, wait to be looked up`),
  );
  /** Look-ups that are running or waiting, by name. All callers of a name share one. */
  private readonly current = new Map<string, Promise<LookupAddress[]>>();

  addressesOf(hostname: string): Promise<LookupAddress[]> {
    const name = hostname.toLowerCase();
    const current = this.current.get(name);
    if (current) return current;
    const found = this.limit
      .run(domainOf(name), () => addressesBySystem(name))
      .finally(() => this.current.delete(name));
    this.current.set(name, found);
    return found;
  }
}

/**
 * Returns the domain that one owner is likely to have: the last two labels, or three as in example.co.uk. The list of
 * all public suffixes would be exact, but a wrong domain only shares or divides a share of look-ups.
 */
function domainOf(name: string): string {
  const labels = name.replace(/\.$/, '').split('.');
  const isUnderCountry = labels.at(-1)?.length === 2 && (labels.at(-2)?.length ?? 0) <= 3;
  return labels.slice(isUnderCountry ? -3 : -2).join('.');
}

const addressesBySystem = (name: string) =>
  new Promise<LookupAddress[]>((resolve, reject) => {
    lookup(name, { all: true, hints: ADDRCONFIG }, (error, addresses) => (error ? reject(error) : resolve(addresses)));
  });
