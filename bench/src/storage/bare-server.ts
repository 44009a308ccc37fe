/**
 * The upper bound for Node: bodies are streamed to files, which are renamed once complete, and streamed back, without
 * any check. The server runs in a process of its own. In, over IPC: its folder. Out: the port.
 */
import { createWriteStream } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';

process.once('message', async ({ folder }: { folder: string }) => {
  const whole = path.join(folder, 'whole');
  const partial = path.join(folder, 'partial');
  for (const each of [whole, partial]) await mkdir(each, { recursive: true });
  let count = 0;

  async function handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const file = path.join(whole, path.basename(incoming.url as string));
    if (incoming.method === 'POST') {
      const temporary = path.join(partial, String(++count));
      await pipeline(incoming, createWriteStream(temporary));
      await rename(temporary, file);
      outgoing.writeHead(200, { 'Content-Length': 2 }).end('{}');
    } else if (incoming.method === 'GET') {
      const handle = await open(file);
      const { size } = await handle.stat();
      outgoing.writeHead(200, { 'Content-Length': size });
      await pipeline(handle.createReadStream(), outgoing);
    } else {
      await rm(whole, { recursive: true });
      await mkdir(whole);
      outgoing.writeHead(200, { 'Content-Length': 2 }).end('{}');
    }
  }

  const server = createServer((incoming, outgoing) => {
    handle(incoming, outgoing).catch((error) => {
      console.error(error);
      outgoing.destroy();
    });
  });
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
});
process.on('disconnect', () => process.exit());
