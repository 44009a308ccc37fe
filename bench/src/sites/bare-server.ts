/**
 * The upper bound for Node: opens the file for each request, and streams it with its length and type, without any
 * check. The server runs in a process of its own. In, over IPC: the file's path. Out: the port.
 */
import { open } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';

process.once('message', ({ folder }: { folder: string }) => {
  async function answer(path: string, outgoing: ServerResponse): Promise<void> {
    const handle = await open(folder + path);
    const { size } = await handle.stat();
    outgoing.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': size });
    await pipeline(handle.createReadStream(), outgoing);
  }

  const server = createServer((incoming, outgoing) => {
    answer(incoming.url as string, outgoing).catch((error) => {
      // At the end of a round, the clients close their connections within a response.
      if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') console.error(error);
      outgoing.destroy();
    });
  });
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
});
process.on('disconnect', () => process.exit());
