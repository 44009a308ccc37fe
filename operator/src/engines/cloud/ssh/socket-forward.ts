/**
 * A Unix socket here that leads to a Unix socket on a machine, over SSH. In: a client and both paths. Out: programs
 * here connect as to a local server. A connection ends when the one behind it does.
 */
import { rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { type Duplex, Transform } from 'node:stream';
import type { SshClient } from './ssh-client.js';

const MOST_CONNECTIONS = 64;

type Channels = Pick<SshClient, 'connect'>;

export interface ForwardOptions {
  /** In a folder that only this account can enter. A leftover there is replaced. */
  local: string;
  remote: string;
  /**
   * The most bytes that the machine may send after a request, that is without a byte from here. More end the
   * connection. Clients such as that of Postgres keep an answer in memory until it is complete, and the machine may be
   * hostile. Default: no limit.
   */
  mostPerAnswer?: number;
}

export class SocketForward {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #stop = new AbortController();

  private constructor(ssh: Channels, { remote, mostPerAnswer }: ForwardOptions) {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => this.#sockets.delete(socket));
      ssh.connect(remote, this.#stop.signal).then(
        (channel) => joined(socket, channel, mostPerAnswer),
        () => socket.destroy(),
      );
    });
    this.#server.maxConnections = MOST_CONNECTIONS;
  }

  static async open(ssh: Channels, options: ForwardOptions): Promise<SocketForward> {
    const { local } = options;
    const forward = new SocketForward(ssh, options);
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

function joined(socket: Socket, channel: Duplex, mostPerAnswer = Number.POSITIVE_INFINITY): void {
  let answered = 0;
  const counted = new Transform({
    transform(chunk: Buffer, _, done) {
      answered += chunk.length;
      if (answered > mostPerAnswer) done(new Error('the machine sends too much'));
      else done(null, chunk);
    },
  });
  counted.on('error', () => socket.destroy());
  channel.on('error', () => socket.destroy());
  channel.once('close', () => socket.end());
  socket.once('close', () => channel.destroy());
  socket.on('data', () => {
    answered = 0;
  });
  socket.pipe(channel).pipe(counted).pipe(socket);
}
