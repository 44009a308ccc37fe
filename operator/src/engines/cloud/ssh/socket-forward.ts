/**
 * A Unix socket here that leads to a Unix socket on a machine, over SSH. In: a client and both paths. Out: programs
 * here connect as to a local server. A connection ends when the one behind it does.
 */
import { rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SshClient } from './ssh-client.js';

const MOST_CONNECTIONS = 64;

export class SocketForward {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #stop = new AbortController();

  private constructor(ssh: SshClient, remote: string) {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => this.#sockets.delete(socket));
      ssh.connect(remote, this.#stop.signal).then(
        (channel) => joined(socket, channel),
        () => socket.destroy(),
      );
    });
    this.#server.maxConnections = MOST_CONNECTIONS;
  }

  /** `local`: in a folder that only this account can enter. A leftover there is replaced. */
  static async open(ssh: SshClient, { local, remote }: { local: string; remote: string }): Promise<SocketForward> {
    const forward = new SocketForward(ssh, remote);
    await rm(local, { force: true });
    await new Promise<void>((resolve, reject) => {
      forward.#server.once('error', reject).listen(local, resolve);
    });
    return forward;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('The forwarded socket is closed.'));
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function joined(socket: Socket, channel: Duplex): void {
  channel.on('error', () => socket.destroy());
  channel.once('close', () => socket.end());
  socket.once('close', () => channel.destroy());
  socket.pipe(channel).pipe(socket);
}
