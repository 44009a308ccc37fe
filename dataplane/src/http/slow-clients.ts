/**
 * Disconnects slow clients: clients that do not send a body in time, and, where bodies are unlimited, clients that stop
 * sending the body or reading the response. A request without a body adds no work here.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { refuse, TOO_SLOW } from './refusals.js';

export interface Patience {
  /** Milliseconds for a client to send a whole request. */
  requestMilliseconds: number;
  /** Milliseconds without progress, for a request or response of unlimited size. */
  stillMilliseconds: number;
  /** Milliseconds between checks. */
  checkMilliseconds: number;
}

interface Connection {
  /** Last request with a body. */
  incoming: IncomingMessage | undefined;
  outgoing: ServerResponse | undefined;
  streams: boolean;
  since: number;
  received: number;
  sent: number;
  sentSince: number;
}

export class SlowClients {
  readonly #connections = new Map<Socket, Connection>();
  readonly #patience: Patience;

  constructor(server: Server, patience: Patience) {
    this.#patience = patience;
    server.on('connection', (socket: Socket) => this.#add(socket));
    const timer = setInterval(() => this.#look(performance.now()), patience.checkMilliseconds).unref();
    server.once('close', () => clearInterval(timer));
  }

  /** Watches a request with a body. */
  watch(incoming: IncomingMessage, outgoing: ServerResponse, streams: boolean): void {
    const connection = this.#connections.get(incoming.socket);
    if (connection === undefined) return;
    connection.incoming = incoming;
    connection.outgoing = outgoing;
    connection.streams = streams;
    connection.since = performance.now();
    connection.received = incoming.socket.bytesRead;
  }

  #add(socket: Socket): void {
    this.#connections.set(socket, {
      incoming: undefined,
      outgoing: undefined,
      streams: false,
      since: 0,
      received: 0,
      sent: 0,
      sentSince: performance.now(),
    });
    socket.once('close', () => this.#connections.delete(socket));
  }

  #look(now: number): void {
    for (const [socket, connection] of this.#connections) {
      if (this.#sendsTooSlowly(socket, connection, now)) this.#end(socket, connection);
      else if (this.#readsTooSlowly(socket, connection, now)) socket.destroy();
    }
  }

  #sendsTooSlowly(socket: Socket, connection: Connection, now: number): boolean {
    const { incoming, streams } = connection;
    if (incoming === undefined) return false;
    if (incoming.complete || incoming.destroyed) {
      connection.incoming = undefined;
      connection.outgoing = undefined;
      return false;
    }
    // If the service does not read, the client is not to blame.
    if (streams && (socket.bytesRead !== connection.received || incoming.readableLength > 0)) {
      connection.received = socket.bytesRead;
      connection.since = now;
    }
    return now - connection.since > (streams ? this.#patience.stillMilliseconds : this.#patience.requestMilliseconds);
  }

  #readsTooSlowly(socket: Socket, connection: Connection, now: number): boolean {
    const sent = socket.bytesWritten - socket.writableLength;
    if (socket.writableLength === 0 || sent !== connection.sent) {
      connection.sent = sent;
      connection.sentSince = now;
    }
    return now - connection.sentSince > this.#patience.stillMilliseconds;
  }

  #end(socket: Socket, { outgoing }: Connection): void {
    if (outgoing && !outgoing.headersSent) {
      outgoing.once('finish', () => socket.destroySoon());
      refuse(outgoing, TOO_SLOW);
    } else {
      socket.destroy();
    }
  }
}
