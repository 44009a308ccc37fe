/**
 * The addresses of this machine, which functions must not reach: what listens there is the platform and its neighbours.
 * In: the network interfaces, looked at again and again. Out: the addresses as Deno's `--deny-net` takes them, and a
 * call when there is a new one. An address that the machine no longer has stays denied, so that its removal restarts no
 * isolate.
 */
import { BlockList } from 'node:net';
import { networkInterfaces } from 'node:os';
import { NOT_PUBLIC } from '@slipway/crds';

const LOOK_MS = 5_000;
/**
 * The denied addresses, former ones included, are an argument of each isolate. All present addresses are denied,
 * however many.
 */
const DENIED_AT_MOST = 256;

/** The IPv4 ranges that every isolate is denied: an own address in one of them changes nothing. */
const DENIED_RANGES = new BlockList();
for (const range of NOT_PUBLIC) {
  const [network = '', prefix] = range.split('/');
  DENIED_RANGES.addSubnet(network, Number(prefix ?? 32));
}

export type AddressReader = () => string[];

/** Returns the addresses of all interfaces and both families, public ones included. */
export const readOwnAddresses: AddressReader = () =>
  Object.values(networkInterfaces())
    .flatMap((addresses = []) => addresses)
    .map(({ address }) => address.split('%', 1)[0] as string);

export class OwnAddresses {
  #denied: readonly string[];
  readonly #timer: NodeJS.Timeout;

  constructor(
    private readonly read: AddressReader,
    onChange: () => void,
    lookMilliseconds = LOOK_MS,
  ) {
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

  /** The system may refuse to list the interfaces, as when no file descriptor is free: the next look reads them. */
  #tryToLook(): readonly string[] {
    try {
      return this.#look();
    } catch {
      return this.#denied;
    }
  }

  #look(): string[] {
    const beyondRanges = this.read().filter((address) => address.includes(':') || !DENIED_RANGES.check(address));
    const own = beyondRanges.map((address) => (address.includes(':') ? `[${address}]` : address));
    return [...new Set(own)].sort();
  }
}
