/**
 * Connections to services in pods, kept for the next request. Node's agent bounds them for each target; here those that
 * do nothing are bounded over all targets too: the one that has waited longest makes room.
 */
import { Agent, type ClientRequest } from 'node:http';
import type { Duplex } from 'node:stream';

export class IdleBoundedAgent extends Agent {
  /** Those that do nothing, the longest idle first. */
  readonly #idle = new Set<Duplex>();
  readonly #seen = new WeakSet<Duplex>();

  constructor(
    private readonly most: number,
    idleMilliseconds: number,
  ) {
    super({ keepAlive: true, timeout: idleMilliseconds });
  }

  get idle(): number {
    return this.#idle.size;
  }

  override keepSocketAlive(socket: Duplex): boolean {
    // Its type says nothing, but it tells whether the socket may be kept.
    const kept = super.keepSocketAlive(socket) as unknown as boolean;
    if (!kept) return false;
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
