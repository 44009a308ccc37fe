/**
 * Finds the hosts in projects' settings of auth whose addresses the installation refuses. In: the hosts of a project,
 * and the rules that the data plane connects by. Out: the refused ones, a line in the log when they change, and a call
 * when a look-up has changed the result. Used by the step checkAddresses.
 */
import { isIP } from 'node:net';
import type { TenantReach } from '@slipway/installation';
import type { OutgoingHost } from '@slipway/installation/auth-settings.js';
import type { Logger } from 'pino';
import { HostAddresses, type Lookup } from '../../runtime/host-addresses.js';

/** Maximum number of names of one project that are resolved. */
const MAX_NAMES = 32;
/** Maximum number of projects whose logged hosts are remembered. The others may be logged again. */
const MAX_LOGGED = 10_000;
/** Maximum number of hosts in a message or a line of the log. */
const MAX_NAMED = 5;
const MAX_HOST_LENGTH = 100;

export interface HostCheckOptions {
  reach: Pick<TenantReach, 'allows' | 'allowsHost'>;
  lookup: Lookup;
  log: Logger;
  now?: () => number;
}

export class HostCheck {
  readonly #options: HostCheckOptions;
  readonly #addresses: HostAddresses;
  readonly #listeners: ((ref: string) => void)[] = [];
  readonly #logged = new Map<string, string>();

  constructor(options: HostCheckOptions) {
    this.#options = options;
    const notify = (ref: string) => {
      for (const listener of this.#listeners) listener(ref);
    };
    this.#addresses = new HostAddresses(options.lookup, notify, options.now);
  }

  /** Calls `listener` with the ref of each project whose result may be another one. */
  onChange(listener: (ref: string) => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Returns the refused hosts, without waiting for a look-up. Undefined: none is refused so far, and names remain to be
   * resolved. A name that does not resolve is not refused.
   */
  refusedOf(ref: string, hosts: readonly OutgoingHost[]): OutgoingHost[] | undefined {
    const { allows, allowsHost } = this.#options.reach;
    const others = hosts.filter((to) => !allowsHost(to));
    const names = [...new Set(others.map(({ host }) => host))].filter((host) => isIP(host) === 0).slice(0, MAX_NAMES);
    const resolved = this.#addresses.of(ref, names);
    const addressesOf = (host: string) => (isIP(host) === 0 ? (resolved(host) ?? []) : [host]);
    const refused = others.filter((to) => {
      const addresses = addressesOf(to.host);
      return addresses.length > 0 && !addresses.some((address) => allows(address, to));
    });
    const isComplete = names.every((name) => resolved(name) !== undefined);
    if (refused.length === 0 && !isComplete) return undefined;
    this.#logChange(ref, refused);
    return refused;
  }

  close(): void {
    this.#addresses.close();
  }

  #logChange(ref: string, refused: readonly OutgoingHost[]): void {
    const settings = namesOf(refused);
    const text = settings.join();
    if ((this.#logged.get(ref) ?? '') === text) return;
    this.#logged.delete(ref);
    if (text === '') return this.#options.log.info({ ref }, 'configured addresses allowed');
    this.#logged.set(ref, text);
    const [oldest] = this.#logged.keys();
    if (this.#logged.size > MAX_LOGGED) this.#logged.delete(oldest as string);
    this.#options.log.warn({ ref, settings }, 'configured addresses refused');
  }
}

/** Returns the names of the settings with their hosts, and the number of those that are left out. */
export function namesOf(hosts: readonly OutgoingHost[]): string[] {
  const named = hosts.slice(0, MAX_NAMED).map(({ setting, host, port }) => {
    const shown = host.slice(0, MAX_HOST_LENGTH);
    return `${setting} (${isIP(host) === 6 ? `[${shown}]` : shown}:${port})`;
  });
  return hosts.length > MAX_NAMED ? [...named, `${hosts.length - MAX_NAMED} more`] : named;
}
