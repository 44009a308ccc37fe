/**
 * Determines the client address of a request: the address of the connection, or the one that an ingress or a trusted
 * proxy appended. Rate limits and logs use it, and it is forwarded in X-Forwarded-For.
 */
import type { IncomingMessage } from 'node:http';
import { type BlockList, isIP } from 'node:net';

export type ClientAddress = (incoming: IncomingMessage) => string;

const withoutAddress = new WeakMap<IncomingMessage, string>();

/** Client address of requests over a Unix socket, which the listener knows. */
export function comesFrom(incoming: IncomingMessage, address: string): void {
  withoutAddress.set(incoming, address);
}

export const ofConnection: ClientAddress = (incoming) => incoming.socket.remoteAddress ?? ofSocket(incoming) ?? '';

const ofSocket = (incoming: IncomingMessage) => withoutAddress.get(incoming);

/**
 * Client address behind an ingress. Each proxy appends the address that it sees, so only the last entry is the ingress'
 * own.
 */
export const ofIngress: ClientAddress = (incoming) => {
  const own = ofSocket(incoming);
  if (own !== undefined) return own;
  const last = withoutPort(forwardedFor(incoming).at(-1) ?? '');
  return isIP(last) === 0 ? ofConnection(incoming) : last;
};

/**
 * Client address behind proxies of these networks. X-Forwarded-For counts only on a connection from one of them. Its
 * last address that is no proxy's is the client's, because earlier entries may be forged. A connection over a Unix
 * socket has no address: it is from a proxy on this machine.
 */
export const ofTrustedProxies =
  (proxies: BlockList): ClientAddress =>
  (incoming) => {
    const own = ofSocket(incoming);
    if (own !== undefined) return own;
    let address = ofConnection(incoming);
    if (address !== '' && !contains(proxies, address)) return address;
    for (const entry of forwardedFor(incoming).reverse()) {
      const before = withoutPort(entry);
      if (isIP(before) === 0) break;
      address = before;
      if (!contains(proxies, address)) break;
    }
    return address;
  };

const forwardedFor = ({ headers }: IncomingMessage): string[] =>
  [headers['x-forwarded-for'] ?? []].flat().flatMap((list) => list.split(',').map((entry) => entry.trim()));

/** Some proxies append the client's port: `203.0.113.7:51234`, `[2001:db8::7]:51234`. */
function withoutPort(entry: string): string {
  if (isIP(entry) !== 0) return entry;
  const [, v6, v4] = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/.exec(entry) ?? [];
  return v6 ?? v4 ?? entry;
}

export function contains(proxies: BlockList, address: string): boolean {
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address;
  const family = isIP(plain);
  return family !== 0 && proxies.check(plain, family === 6 ? 'ipv6' : 'ipv4');
}
