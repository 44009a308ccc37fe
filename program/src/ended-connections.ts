/** Closes excess connections, and logs them at a limited rate, because clients decide how many there are. */
import type { Socket } from 'node:net';

const TELL_MS = 10_000;

export class EndedConnections {
  #ended = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `tell` is called with the number of closed connections since its last call. */
  constructor(private readonly tell: (connections: number) => void) {}

  end(socket: Socket): void {
    socket.destroy();
    this.#ended++;
    this.#timer ??= setTimeout(() => this.#tell(), TELL_MS).unref();
  }

  /** Logs the remaining ones. */
  close(): void {
    clearTimeout(this.#timer);
    this.#tell();
  }

  #tell(): void {
    this.#timer = undefined;
    if (this.#ended > 0) this.tell(this.#ended);
    this.#ended = 0;
  }
}
