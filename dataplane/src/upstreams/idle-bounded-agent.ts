/**
 * HTTP agent with reused connections to services in pods and on machines. Node's agent limits idle connections for each
 * target. This agent also limits their total number, and closes the connection that was idle for longest to keep a new
 * one. A request with a pin uses TLS, and only connections with the same pin.
 */
import { Agent, type ClientRequest, type ClientRequestArgs } from 'node:http';
import type { Duplex } from 'node:stream';
import { connectPinned, type PinnedTarget } from './pinned-connection.js';

type NameOptions = Parameters<Agent['getName']>[0] & Partial<PinnedTarget>;
type Opened = (error: Error | null, stream: Duplex) => void;

export class IdleBoundedAgent extends Agent {
  /** Idle connections, the longest idle first. */
  readonly #idle = new Set<Duplex>();
  readonly #seen = new WeakSet<Duplex>();
  /** Pinned connections, idle, in use and being opened, by owner. */
  readonly #pinned = new Map<string, Set<Duplex>>();

  constructor(
    private readonly most: number,
    idleMilliseconds: number,
  ) {
    super({ keepAlive: true, timeout: idleMilliseconds });
  }

  get idle(): number {
    return this.#idle.size;
  }

  override getName(options?: NameOptions): string {
    const name = super.getName(options);
    return options?.pin ? `${name}:${options.pin.owner}:${options.pin.certificate}` : name;
  }

  override createConnection(options: ClientRequestArgs, opened: Opened): Duplex | null | undefined {
    if (!isPinned(options)) return super.createConnection(options, opened);
    const { owner } = options.pin;
    const socket = connectPinned(options, opened as (error: Error | null, stream?: Duplex) => void);
    const ofOwner = this.#pinned.get(owner) ?? new Set();
    this.#pinned.set(owner, ofOwner.add(socket));
    socket.once('close', () => {
      ofOwner.delete(socket);
      if (ofOwner.size === 0 && this.#pinned.get(owner) === ofOwner) this.#pinned.delete(owner);
    });
    return undefined;
  }

  /** Closes the owner's pinned connections. Their requests fail with `reason`. */
  closePinned(owner: string, reason: Error): void {
    for (const socket of this.#pinned.get(owner) ?? []) socket.destroy(reason);
  }

  override destroy(): void {
    super.destroy();
    for (const sockets of this.#pinned.values()) for (const socket of sockets) socket.destroy();
  }

  override keepSocketAlive(socket: Duplex): boolean {
    // The type does not show it, but the return value is whether the socket may be reused.
    const mayReuse = super.keepSocketAlive(socket) as unknown as boolean;
    if (!mayReuse) return false;
    this.#idle.add(socket);
    if (!this.#seen.has(socket)) socket.once('close', () => this.#idle.delete(socket));
    this.#seen.add(socket);
    const [longest] = this.#idle;
    if (this.#idle.size > this.most) longest?.destroy();
    return true;
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    this.#idle.delete(socket);
    super.reuseSocket(socket, request);
  }
}

const isPinned = (options: object): options is PinnedTarget => 'pin' in options && options.pin !== undefined;
