/**
 * Socket for a client of `pg`, whose parser buffers a message of any length. Destroys itself once the server has sent
 * more than the limit. Used for logins and short jobs, such as migrations, in databases to which tenants write.
 */
import { Socket } from 'node:net';

/** Maximum bytes that a migration's session may receive. */
export const JOB_BYTES = 16 * 1024 * 1024;

export class TooMuchReceived extends Error {
  constructor(bytes: number) {
    super(`the database sent more than ${bytes} bytes`);
  }
}

export function boundedSocket(bytes: number): Socket {
  const socket = new Socket();
  let received = 0;
  socket.on('data', (chunk: Buffer) => {
    received += chunk.length;
    if (received > bytes) socket.destroy(new TooMuchReceived(bytes));
  });
  return socket;
}
