/** The app behind both proxies, in a process of its own. In, over IPC: anything. Out: the port. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const bodies = new Map<string, Buffer>();

/** Returns as many bytes as the path names, such as `/1000`. */
function bodyOf(path: string): Buffer {
  const body = bodies.get(path) ?? Buffer.alloc(Number(path.slice(1)), 'x');
  bodies.set(path, body);
  return body;
}

process.once('message', () => {
  const server = createServer((incoming, outgoing) => {
    const body = bodyOf(incoming.url as string);
    outgoing.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': body.length });
    outgoing.end(body);
  });
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
});
process.on('disconnect', () => process.exit());
