/**
 * Limits the connections of the public port, and the share of one network, so that clients of other networks can always
 * connect. In: the server. Connections of proxies and of programs on this machine are not counted, because they serve
 * many clients.
 */
import type { Server, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { Counts, EndedConnections, networkOf } from '@slipway/program';
import type { Logger } from 'pino';

/**
 * Share of the free connections that a network may use: a fourth. A single network may have 3,276 connections, and the
 * second one 2,621.
 */
const PER_FREE = 1 / 4;

export interface ConnectionSharesOptions {
  most: number;
  /** True if the address is a reverse proxy's. */
  isProxy(address: string): boolean;
  log: Logger;
}

export class ConnectionShares {
  readonly #options: ConnectionSharesOptions;
  readonly #ofNetworks = new Counts();
  readonly #ended: EndedConnections;

  constructor(server: Server, options: ConnectionSharesOptions) {
    this.#options = options;
    this.#ended = new EndedConnections((connections) =>
      options.log.warn({ connections }, 'connections closed: their networks have too many'),
    );
    server.on('connection', (socket: Socket) => this.#admit(socket));
    server.once('close', () => this.#ended.close());
  }

  #admit(socket: Socket): void {
    // Counted before its handshake, by the server of TLS.
    if (socket instanceof TLSSocket) return;
    const { remoteAddress } = socket;
    if (remoteAddress === undefined || isOwn(remoteAddress) || this.#options.isProxy(remoteAddress)) return;
    const network = networkOf(remoteAddress);
    const share = { most: this.#options.most, perFree: PER_FREE };
    if (!this.#ofNetworks.hasRoom(network, share)) return this.#ended.end(socket);
    this.#ofNetworks.add(network);
    socket.once('close', () => this.#ofNetworks.remove(network));
  }
}

/** Address of programs on this machine. A network of 127.0.0.0/8 occurs only in tests. */
const isOwn = (address: string) => address === '127.0.0.1' || address === '::1' || address === '::ffff:127.0.0.1';
