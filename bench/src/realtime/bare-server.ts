/**
 * The upper bound for Node: a stock `ws` server that forwards each message to every other socket, and does nothing
 * else. It runs in a process of its own. In, over IPC: settings. Out: the port.
 */
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';

process.once('message', () => {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false }, () => {
    process.send?.({ port: (server.address() as AddressInfo).port });
  });
  server.on('connection', (socket) => {
    socket.on('message', (data, binary) => {
      for (const other of server.clients) if (other !== socket) other.send(data, { binary });
    });
  });
});
process.on('disconnect', () => process.exit());
