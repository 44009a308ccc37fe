/**
 * For tests: stands for a hostile party at the address of somebody's Postgres. It speaks of the protocol no more than
 * the question for a password, in the clear or by MD5, and keeps every byte that it is sent after that.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

export type PasswordQuestion = 'cleartext' | 'md5';

export interface HostilePostgres {
  host: string;
  port: number;
  /** How many logged in, or tried to. */
  asked(): number;
  /** Bytes that arrived after the password request. */
  caught(): Buffer;
  close(): Promise<void>;
}

const QUESTIONS: Record<PasswordQuestion, Buffer> = {
  cleartext: Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]),
  md5: Buffer.from([0x52, 0, 0, 0, 12, 0, 0, 0, 5, 1, 2, 3, 4]),
};

export async function startHostilePostgres(question: PasswordQuestion): Promise<HostilePostgres> {
  const sockets = new Set<Socket>();
  const caught: Buffer[] = [];
  let asked = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    socket.once('data', () => {
      asked += 1;
      socket.write(QUESTIONS[question]);
      socket.on('data', (chunk) => caught.push(chunk));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    asked: () => asked,
    caught: () => Buffer.concat(caught),
    close: async () => {
      // What a client sends as it goes is waited for, so that nothing is missed.
      await Promise.all([...sockets].map((socket) => once(socket, 'close')));
      server.close();
      await once(server, 'close');
    },
  };
}
