/**
 * Bounds connections whose client has not shown a token yet, from TCP on: whoever only connects, or sends its TLS
 * handshake or headers slowly, takes no place from the platform's own programs. In: raw sockets, and those that
 * authenticated. Called by the listener.
 */
import type { Socket } from 'node:net';
import type { Logger } from 'pino';

export interface ConnectionLimits {
  /** Open at once from this machine, and from others: neither takes the other's places. */
  own: number;
  others: number;
  /**
   * Connections without a token. One more ends the oldest, so that a client that sends its request promptly always gets
   * through.
   */
  ownPending: number;
  othersPending: number;
  ofOneNetwork: number;
  /** From TCP on, for a client to show its token. */
  pendingMilliseconds: number;
}

export const CONNECTION_LIMITS: ConnectionLimits = {
  own: 1_000,
  others: 1_000,
  ownPending: 500,
  othersPending: 250,
  ofOneNetwork: 32,
  pendingMilliseconds: 15_000,
};

const LOG_MS = 10_000;

interface Group {
  open: number;
  most: number;
  /** Oldest first. */
  pending: Map<string, Pending>;
  mostPending: number;
}

interface Pending {
  socket: Socket;
  network: string;
  late: NodeJS.Timeout;
}

export class ConnectionGuard {
  readonly #own: Group;
  readonly #others: Group;
  readonly #networks = new Map<string, number>();
  #ended = 0;
  #report: NodeJS.Timeout | undefined;

  constructor(
    private readonly limits: ConnectionLimits,
    private readonly log: Logger,
  ) {
    const { own, ownPending, others, othersPending } = limits;
    this.#own = { open: 0, most: own, pending: new Map(), mostPending: ownPending };
    this.#others = { open: 0, most: others, pending: new Map(), mostPending: othersPending };
  }

  /** A connection as TCP accepted it, before TLS. */
  accept(socket: Socket): void {
    const id = idOf(socket);
    const group = this.#groupOf(socket);
    if (id === undefined || group.open >= group.most) return this.#end(socket);
    group.open++;
    const network = networkOf(socket.remoteAddress as string);
    if (group === this.#others && this.#pendingOf(network) >= this.limits.ofOneNetwork) {
      this.#endOldest(group, (other) => other.network === network);
    }
    if (group.pending.size >= group.mostPending) this.#endOldest(group, () => true);
    const late = setTimeout(() => this.#end(socket), this.limits.pendingMilliseconds).unref();
    // An entry of the same id belongs to a connection that has ended, but whose close event is still to come.
    this.#settle(group, id);
    group.pending.set(id, { socket, network, late });
    this.#networks.set(network, this.#pendingOf(network) + 1);
    socket.once('close', () => {
      group.open--;
      clearTimeout(late);
      if (group.pending.get(id)?.socket === socket) this.#settle(group, id);
    });
  }

  /** `socket`: TLS over a connection that was accepted, which has the same addresses and port. */
  authenticated(socket: Socket): void {
    const id = idOf(socket);
    if (id !== undefined) this.#settle(this.#groupOf(socket), id);
  }

  close(): void {
    clearTimeout(this.#report);
    this.#say();
  }

  #groupOf = (socket: Socket): Group => (isOwn(socket) ? this.#own : this.#others);

  #pendingOf = (network: string): number => this.#networks.get(network) ?? 0;

  #settle(group: Group, id: string): void {
    const found = group.pending.get(id);
    if (!found) return;
    clearTimeout(found.late);
    group.pending.delete(id);
    const left = this.#pendingOf(found.network) - 1;
    if (left > 0) this.#networks.set(found.network, left);
    else this.#networks.delete(found.network);
  }

  #endOldest(group: Group, isMeant: (pending: Pending) => boolean): void {
    for (const [id, pending] of group.pending) {
      if (!isMeant(pending)) continue;
      this.#settle(group, id);
      return this.#end(pending.socket);
    }
  }

  #end(socket: Socket): void {
    socket.destroy();
    this.#ended++;
    this.#report ??= setTimeout(() => this.#say(), LOG_MS).unref();
  }

  #say(): void {
    this.#report = undefined;
    if (this.#ended > 0) this.log.warn({ connections: this.#ended }, 'connections without a token closed');
    this.#ended = 0;
  }
}

/** A client may use one port for connections to several addresses of this machine. */
const idOf = ({ remoteAddress, remotePort, localAddress }: Socket): string | undefined =>
  remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort} ${localAddress}`;

const plain = (address: string) => (address.startsWith('::ffff:') ? address.slice(7) : address);

/** A program of this machine that connects to an address of its network has that address for its own. */
const isOwn = ({ remoteAddress = '', localAddress }: Socket) =>
  remoteAddress === '::1' || plain(remoteAddress) === '127.0.0.1' || remoteAddress === localAddress;

/** One customer's IPv6 addresses are as many as he likes: the first 48 bits count. */
function networkOf(address: string): string {
  const known = plain(address);
  return known.includes(':') ? known.split(':').slice(0, 3).join(':') : known;
}
