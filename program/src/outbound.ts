/**
 * Outgoing requests and connections to hosts that a tenant names. On a cluster, only public addresses are connected to,
 * so that no tenant reaches the cluster through the platform. The address is checked at the connection, because a name
 * may resolve to another one a moment later.
 */
import { lookup } from 'node:dns';
import { once } from 'node:events';
import { connect, isIP, type LookupFunction, type Socket } from 'node:net';
import { Agent, buildConnector, fetch as fetchBy } from 'undici';
import { addressesOf } from './addresses.js';

export interface Outbound {
  fetch: typeof fetch;
  connect(host: string, port: number, timeoutMs: number): Promise<Socket>;
  close(): Promise<void>;
}

/**
 * Connects to any address, for one machine, where everybody who may write a project's settings is trusted with
 * addresses.
 */
export const anywhere: Outbound = {
  fetch: (...request) => fetch(...request),
  connect: (host, port, timeoutMs) => connected(connect({ host, port }), timeoutMs),
  close: async () => undefined,
};

/** `blocked`: CIDRs of the site besides those that are not public. */
export function publicOnly(blocked: readonly string[]): Outbound {
  try {
    return outboundTo(addressesOf({ blocked }));
  } catch (error) {
    throw new Error(`blockedAddresses of the site: ${(error as Error).message}`);
  }
}

export class AddressRefused extends Error {
  readonly code = 'EADDRESSREFUSED';
  constructor() {
    super('the address is not public, or the site blocks it');
  }
}

export function outboundTo(allows: (address: string) => boolean): Outbound {
  const guarded = guardedLookup(allows);
  const refuses = (host: string) => isIP(host) !== 0 && !allows(host);
  const connector = buildConnector({ lookup: guarded });
  const agent = new Agent({
    // An IP address is not looked up.
    connect: (options, callback) =>
      refuses(options.hostname) ? callback(new AddressRefused(), null) : connector(options, callback),
  });
  return {
    fetch: ((url: string, options: object) => fetchBy(url, { ...options, dispatcher: agent })) as typeof fetch,
    connect: async (host, port, timeoutMs) => {
      if (refuses(host)) throw new AddressRefused();
      return connected(connect({ host, port, lookup: guarded }), timeoutMs);
    },
    close: () => agent.destroy(),
  };
}

async function connected(socket: Socket, timeoutMs: number): Promise<Socket> {
  // A connection that fails before another listener is added would end the process.
  socket.on('error', () => undefined);
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(timeoutMs) });
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

const guardedLookup =
  (allows: (address: string) => boolean): LookupFunction =>
  (hostname, options, callback) =>
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      const [first, ...others] = addresses.filter(({ address }) => allows(address));
      if (first === undefined) callback(new AddressRefused(), []);
      else if (options.all) callback(null, [first, ...others]);
      else callback(null, first.address, first.family);
    });
