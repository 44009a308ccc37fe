/**
 * HTTP agent with reused connections to services in pods. Node's agent limits idle connections for each target. This
 * agent also limits their total number, and closes the connection that was idle for longest to keep a new one.
 */
import { Agent, type ClientRequest } from 'node:http';
import type { Duplex } from 'node:stream';

export class IdleBoundedAgent extends Agent {
  /** Idle connections, the longest idle first. */
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
