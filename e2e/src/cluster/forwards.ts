/**
 * Local ports that lead to Services of a cluster. Each connection is a separate port forward through the API server.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { PortForward } from '@slipway/kubernetes/port-forward.testing.js';

export class Forwards {
  readonly #forward: Promise<PortForward>;
  readonly #servers = new Map<string, Promise<Server>>();

  constructor(kubeconfig: string) {
    // Loaded on demand, because most tests use no cluster, and client-node loads slowly.
    this.#forward = import('@slipway/kubernetes/port-forward.testing.js').then(({ portForwardBy }) =>
      portForwardBy(kubeconfig),
    );
    this.#forward.catch(() => undefined);
  }

  /** Returns a port of 127.0.0.1 that leads to the Service's pod. */
  async to(namespace: string, service: string, port: number): Promise<number> {
    const key = `${namespace}/${service}:${port}`;
    const server = this.#servers.get(key) ?? this.#listen(namespace, service, port);
    this.#servers.set(key, server);
    return ((await server).address() as AddressInfo).port;
  }

  async #listen(namespace: string, service: string, port: number): Promise<Server> {
    const server = createServer((socket) => {
      socket.on('error', () => socket.destroy());
      this.#connect(socket, namespace, service, port).catch((error: Error) => socket.destroy(error));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
  }

  async #connect(socket: Socket, namespace: string, service: string, port: number): Promise<void> {
    const forward = await this.#forward;
    const opened = await forward.portForwardService(namespace, service, [port], socket, null, socket);
    const webSocket = typeof opened === 'function' ? opened() : opened;
    socket.on('close', () => webSocket?.close());
    webSocket?.on('close', () => socket.destroy());
  }

  async close(): Promise<void> {
    for (const server of await Promise.all(this.#servers.values())) server.close();
  }
}
