/**
 * Addresses of this machine, which functions must not reach, because the platform and its neighbours listen there. In:
 * the network interfaces, checked periodically. Out: the addresses in the form of Deno's `--deny-net`, and a call for
 * each new one. A removed address stays denied, so that its removal restarts no isolate.
 */
import { networkInterfaces } from 'node:os';
import { within } from '@slipway/program';

const LOOK_MS = 5_000;
/**
 * Maximum number of denied addresses, including removed ones, because each isolate gets them as an argument. Present
 * addresses are always denied.
 */
const DENIED_AT_MOST = 256;

export type AddressReader = () => string[];

/** Returns the addresses of all interfaces and both families, public ones included. */
export const readOwnAddresses: AddressReader = () =>
  Object.values(networkInterfaces())
    .flatMap((addresses = []) => addresses)
    .map(({ address }) => address.split('%', 1)[0] as string);

export class OwnAddresses {
  #denied: readonly string[];
  readonly #isDeniedRange: (address: string) => boolean;
  readonly #timer: NodeJS.Timeout;

  /** `deniedRanges`: IPv4 ranges that every isolate is denied. An own address within one changes nothing. */
  constructor(
    private readonly read: AddressReader,
    deniedRanges: readonly string[],
    onChange: () => void,
    lookMilliseconds = LOOK_MS,
  ) {
    this.#isDeniedRange = within(deniedRanges);
    this.#denied = this.#look();
    this.#timer = setInterval(() => {
      const present = this.#tryToLook();
      if (present.every((address) => this.#denied.includes(address))) return;
      const former = this.#denied.filter((address) => !present.includes(address));
      this.#denied = [...present, ...former.slice(0, Math.max(0, DENIED_AT_MOST - present.length))];
      onChange();
    }, lookMilliseconds).unref();
  }

  get denied(): readonly string[] {
    return this.#denied;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** The system may fail to list the interfaces, for example without a free file descriptor. The next check retries. */
  #tryToLook(): readonly string[] {
    try {
      return this.#look();
    } catch {
      return this.#denied;
    }
  }

  #look(): string[] {
    const beyondRanges = this.read().filter((address) => address.includes(':') || !this.#isDeniedRange(address));
    const own = beyondRanges.map((address) => (address.includes(':') ? `[${address}]` : address));
    return [...new Set(own)].sort();
  }
}
