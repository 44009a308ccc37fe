/**
 * A port for tests that forwards to another port of this machine and can be cut. While it is cut, it drops all bytes
 * and closes no connection.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

export class Cable {
  readonly #to: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(to: number) {
    this.#to = to;
    this.#server = createServer((socket) => this.#connect(socket));
  }

  static async to(port: number): Promise<Cable> {
    const cable = new Cable(port);
    cable.#server.listen(0, '127.0.0.1');
    await once(cable.#server, 'listening');
    return cable;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  /** Forwards again. Connections that were open at the cut are closed. */
  mend(): void {
    this.#isCut = false;
    this.#end();
  }

  close(): void {
    this.#end();
    this.#server.close();
  }

  #end(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #connect(socket: Socket): void {
    this.#keep(socket);
    if (this.#isCut) return;
    const onward = connect(this.#to, '127.0.0.1');
    this.#keep(onward);
    socket.pipe(onward).pipe(socket);
    socket.on('close', () => onward.destroy());
    onward.on('close', () => socket.destroy());
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket));
  }
}
