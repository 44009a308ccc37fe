/**
 * For tests: a hostile server at the address of a Postgres. It implements only the request for a password, in clear
 * text or by MD5. It stores every byte that it receives after that.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

export type PasswordQuestion = 'cleartext' | 'md5';

export interface HostilePostgres {
  host: string;
  port: number;
  /** The number of clients that logged in or tried to. */
  logins(): number;
  /** The bytes that arrived after the password request. */
  received(): Buffer;
  close(): Promise<void>;
}

const QUESTIONS: Record<PasswordQuestion, Buffer> = {
  cleartext: Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]),
  md5: Buffer.from([0x52, 0, 0, 0, 12, 0, 0, 0, 5, 1, 2, 3, 4]),
};

export async function startHostilePostgres(question: PasswordQuestion): Promise<HostilePostgres> {
  const sockets = new Set<Socket>();
  const received: Buffer[] = [];
  let logins = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    socket.once('data', () => {
      logins += 1;
      socket.write(QUESTIONS[question]);
      socket.on('data', (chunk) => received.push(chunk));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    logins: () => logins,
    received: () => Buffer.concat(received),
    close: async () => {
      // Waits for the bytes that clients send when they disconnect.
      await Promise.all([...sockets].map((socket) => once(socket, 'close')));
      server.close();
      await once(server, 'close');
    },
  };
}
