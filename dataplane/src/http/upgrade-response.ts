/** Sends an ordinary response on a socket that node:http has released, and closes the connection. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type OriginPolicy, SHARED_ORIGIN } from './origin-policy.js';
import { ProjectResponse } from './project-response.js';

/** Writes the response. `policy` defaults to the strictest. */
export function upgradeResponse(socket: Duplex, incoming: IncomingMessage, policy: OriginPolicy = SHARED_ORIGIN) {
  const outgoing = new ProjectResponse(incoming);
  outgoing.apply(policy);
  outgoing.shouldKeepAlive = false;
  outgoing.assignSocket(socket as Socket);
  outgoing.once('finish', () => (socket as Socket).destroySoon());
  return outgoing;
}
