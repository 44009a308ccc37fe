/**
 * Limits connections whose client has not sent a valid token yet. The limits apply from TCP on. So a client that only
 * connects, or sends its TLS handshake or headers slowly, can't block the platform's own programs. In: raw sockets, and
 * authenticated sockets. Called by the listener.
 */
import type { Socket } from 'node:net';
import { Counts, EndedConnections, networkOf } from '@slipway/program';
import type { Logger } from 'pino';

export interface ConnectionLimits {
  /** Open connections from this machine, and from others. Each has its own limit. */
  own: number;
  others: number;
  /**
   * Connections without a token. One more connection ends the oldest, so that a client that sends its request promptly
   * always succeeds.
   */
  ownPending: number;
  othersPending: number;
  ofOneNetwork: number;
  /** Time from the TCP connection until the client must have sent its token. */
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

interface Group {
  open: number;
  most: number;
  /** Connections without a token, the oldest first. */
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
  readonly #networks = new Counts();
  readonly #ended: EndedConnections;

  constructor(
    private readonly limits: ConnectionLimits,
    log: Logger,
  ) {
    this.#ended = new EndedConnections((connections) =>
      log.warn({ connections }, 'connections without a token closed'),
    );
    const { own, ownPending, others, othersPending } = limits;
    this.#own = { open: 0, most: own, pending: new Map(), mostPending: ownPending };
    this.#others = { open: 0, most: others, pending: new Map(), mostPending: othersPending };
  }

  /** Registers a connection that TCP accepted, before TLS. */
  accept(socket: Socket): void {
    const id = idOf(socket);
    const group = this.#groupOf(socket);
    if (id === undefined || group.open >= group.most) return this.#ended.end(socket);
    group.open++;
    const network = networkOf(socket.remoteAddress);
    if (group === this.#others && this.#networks.of(network) >= this.limits.ofOneNetwork) {
      this.#endOldest(group, (other) => other.network === network);
    }
    if (group.pending.size >= group.mostPending) this.#endOldest(group, () => true);
    const late = setTimeout(() => this.#ended.end(socket), this.limits.pendingMilliseconds).unref();
    // An entry with the same id belongs to a connection that has ended, and whose close event is still to come.
    this.#settle(group, id);
    group.pending.set(id, { socket, network, late });
    this.#networks.add(network);
    socket.once('close', () => {
      group.open--;
      clearTimeout(late);
      if (group.pending.get(id)?.socket === socket) this.#settle(group, id);
    });
  }

  /**
   * Marks a connection as authenticated. `socket` is TLS over an accepted connection, with the same addresses and port.
   */
  authenticated(socket: Socket): void {
    const id = idOf(socket);
    if (id !== undefined) this.#settle(this.#groupOf(socket), id);
  }

  close(): void {
    this.#ended.close();
  }

  #groupOf = (socket: Socket): Group => (isOwn(socket) ? this.#own : this.#others);

  #settle(group: Group, id: string): void {
    const pending = group.pending.get(id);
    if (!pending) return;
    clearTimeout(pending.late);
    group.pending.delete(id);
    this.#networks.remove(pending.network);
  }

  #endOldest(group: Group, isMeant: (pending: Pending) => boolean): void {
    for (const [id, pending] of group.pending) {
      if (!isMeant(pending)) continue;
      this.#settle(group, id);
      return this.#ended.end(pending.socket);
    }
  }
}

/**
 * Includes the local address, because a client can use one port for connections to several addresses of this machine.
 */
const idOf = ({ remoteAddress, remotePort, localAddress }: Socket): string | undefined =>
  remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort} ${localAddress}`;

const plain = (address: string) => (address.startsWith('::ffff:') ? address.slice(7) : address);

/** A program of this machine that connects to a network address has that address as its own. */
const isOwn = ({ remoteAddress = '', localAddress }: Socket) =>
  remoteAddress === '::1' || plain(remoteAddress) === '127.0.0.1' || remoteAddress === localAddress;
