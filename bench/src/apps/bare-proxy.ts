/**
 * The upper bound for Node: forwards each request over a kept connection, and pipes both bodies, without any check. The
 * proxy runs in a process of its own. In, over IPC: the port of the app. Out: its own port.
 */
import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

process.once('message', ({ port }: { port: number }) => {
  const agent = new Agent({ keepAlive: true });
  const server = createServer((incoming, outgoing) => {
    const { method, url: path, headers } = incoming;
    const upstream = request({ host: '127.0.0.1', port, method, path, headers, agent }, (answer) => {
      outgoing.writeHead(answer.statusCode as number, answer.headers);
      answer.pipe(outgoing);
    });
    upstream.once('error', () => outgoing.destroy());
    // At the end of a round, the clients close their connections within a response.
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) upstream.destroy();
    });
    incoming.pipe(upstream);
  });
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
});
process.on('disconnect', () => process.exit());
