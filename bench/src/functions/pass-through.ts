/**
 * The least that a Node server can do between a client and a Unix socket. Benches compare the gateway with it. Its
 * argument on the command line is the path of the socket.
 */
import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

const socketPath = process.argv[2] as string;
const agent = new Agent({ keepAlive: true });

const server = createServer((incoming, outgoing) => {
  const upstream = request(
    { socketPath, agent, method: incoming.method, path: incoming.url, headers: incoming.headers },
    (answer) => {
      outgoing.writeHead(answer.statusCode as number, answer.headers);
      answer.pipe(outgoing);
    },
  );
  upstream.once('error', () => outgoing.destroy());
  incoming.pipe(upstream);
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
process.on('disconnect', () => process.exit());
