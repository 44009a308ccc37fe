/** From which network address a request comes: the connection's, or behind an ingress the one that the ingress saw. */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

export type ClientAddress = (incoming: IncomingMessage) => string;

const withoutAddress = new WeakMap<IncomingMessage, string>();

/** For what came over a Unix socket: whoever listens there knows whose it is. */
export function comesFrom(incoming: IncomingMessage, address: string): void {
  withoutAddress.set(incoming, address);
}

export const ofConnection: ClientAddress = (incoming) => incoming.socket.remoteAddress ?? ofSocket(incoming) ?? '';

const ofSocket = (incoming: IncomingMessage) => withoutAddress.get(incoming);

/** Each proxy appends the address that it sees: of the list only the last entry is the ingress' own word. */
export const ofIngress: ClientAddress = (incoming) => {
  const own = ofSocket(incoming);
  if (own !== undefined) return own;
  const last = [incoming.headers['x-forwarded-for']].flat().at(-1)?.split(',').at(-1)?.trim() ?? '';
  return isIP(last) === 0 ? ofConnection(incoming) : last;
};
