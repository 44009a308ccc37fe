/** Proxy between the service and Postgres for tests, which reports the text of every statement on the wire. */

import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';

export interface StatementTap {
  port: number;
  close(): Promise<void>;
}

/** `socket` is the path of Postgres' own socket. */
export async function startStatementTap(socket: string, onStatement: (text: string) => void): Promise<StatementTap> {
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const postgres = connect(socket);
    const read = messageReader(onStatement);
    client.on('data', read);
    client.pipe(postgres).pipe(client);
    for (const each of [client, postgres]) {
      open.add(each);
      each
        .on('error', () => undefined)
        .on('close', () => {
          open.delete(each);
          client.destroy();
          postgres.destroy();
        });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      for (const each of open) each.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Messages have a letter, a length that includes itself, and a body; only the first has no letter. */
function messageReader(onStatement: (text: string) => void): (chunk: Buffer) => void {
  let pending: Buffer = Buffer.alloc(0);
  let started = false;
  return (chunk) => {
    pending = Buffer.concat([pending, chunk]);
    for (;;) {
      const letter = started ? 1 : 0;
      if (pending.length < letter + 4) return;
      const end = letter + pending.readUInt32BE(letter);
      if (pending.length < end) return;
      const type = started ? String.fromCharCode(pending[0] as number) : '';
      const texts = pending
        .subarray(letter + 4, end)
        .toString('latin1')
        .split('\0');
      if (type === 'P') onStatement(Buffer.from(texts[1] ?? '', 'latin1').toString());
      if (type === 'Q') onStatement(Buffer.from(texts[0] ?? '', 'latin1').toString());
      pending = pending.subarray(end);
      started = true;
    }
  };
}
