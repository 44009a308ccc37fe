/** An ordinary answer on a socket that node:http has given up; it closes the connection. */
import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

export function answerOn(socket: Duplex, incoming: IncomingMessage): ServerResponse {
  const outgoing = new ServerResponse(incoming);
  outgoing.shouldKeepAlive = false;
  outgoing.assignSocket(socket as Socket);
  outgoing.once('finish', () => (socket as Socket).destroySoon());
  return outgoing;
}
