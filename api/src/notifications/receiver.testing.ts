/** A server that receives messages of webhooks and of Slack, for tests. */
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

export interface ReceivedMessage {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

/** `tls`: key and certificate in PEM. */
export async function startReceiver(tls?: string) {
  const messages: ReceivedMessage[] = [];
  const answer: { status: number; headers: Record<string, string> } = { status: 204, headers: {} };
  const listener: RequestListener = (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      messages.push({
        path: incoming.url ?? '',
        headers: incoming.headers,
        body: Buffer.concat(chunks).toString(),
      });
      outgoing.writeHead(answer.status, answer.headers).end();
    });
  };
  const server = tls === undefined ? createServer(listener) : createTlsServer({ key: tls, cert: tls }, listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    messages,
    /** The status and headers of each response. */
    answer,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
export type Receiver = Awaited<ReturnType<typeof startReceiver>>;
