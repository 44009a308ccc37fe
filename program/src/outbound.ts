/**
 * Outgoing requests and connections to hosts that a tenant names. Only addresses that the installation allows are
 * connected to, so that no tenant reaches the platform or its network through the platform. The address is checked at
 * the connection, because a name may resolve to another one a moment later.
 */
import { once } from 'node:events';
import { connect, isIP, type LookupFunction, type Socket } from 'node:net';
import { Agent, buildConnector, fetch as fetchBy } from 'undici';
import { HostLookups } from './host-lookups.js';
import { ALLOWED_NETWORKS_SETTING, type Allows, type Destination, hostOf } from './reach.js';

export interface Outbound {
  fetch: typeof fetch;
  connect(host: string, port: number, timeoutMs: number): Promise<Socket>;
  close(): Promise<void>;
}

const REFUSED =
  'the address is not public, or the platform blocks it; an administrator can allow its network in ' +
  `${ALLOWED_NETWORKS_SETTING}, on a cluster in outbound.allowedNetworks`;

export class AddressRefused extends Error {
  readonly code = 'EADDRESSREFUSED';

  constructor(
    reason: string,
    /** The host that the tenant named, and the port. */
    readonly to: Destination,
  ) {
    super(reason);
  }
}

/** `reason`: text of the error for a refused address, for the tenant and the log. */
export function outboundTo(allows: Allows, reason = REFUSED): Outbound {
  const agent = new Agent({
    connect: (options, callback) => {
      const guard = guardOf(allows, destinationOf(options), reason);
      if (guard.refusal) callback(guard.refusal, null);
      // A connector has one lookup for all hosts, so each connection has a connector of its own.
      else buildConnector({ lookup: guard.lookup })(options, callback);
    },
  });
  return {
    fetch: ((url: string, options: object) => fetchBy(url, { ...options, dispatcher: agent })) as typeof fetch,
    connect: async (host, port, timeoutMs) => {
      const guard = guardOf(allows, { host: hostOf(host), port }, reason);
      if (guard.refusal) throw guard.refusal;
      return connected(connect({ host, port, lookup: guard.lookup }), timeoutMs);
    },
    close: () => agent.destroy(),
  };
}

const destinationOf = ({ hostname, port, protocol }: buildConnector.Options): Destination => ({
  host: hostOf(hostname),
  port: Number(port) || (protocol === 'https:' ? 443 : 80),
});

/** Returns the check of one connection. An IP address is not looked up, so it is checked here. */
function guardOf(
  allows: Allows,
  to: Destination,
  reason: string,
): { refusal?: AddressRefused; lookup: LookupFunction } {
  const isRefused = isIP(to.host) !== 0 && !allows(to.host, to);
  const refusal = () => new AddressRefused(reason, to);
  const lookup = guardedLookup((address) => allows(address, to), refusal);
  return { ...(isRefused && { refusal: refusal() }), lookup };
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

/** One for the process, because all look-ups share its threads. */
const lookups = new HostLookups();

const guardedLookup =
  (allows: (address: string) => boolean, refusal: () => AddressRefused): LookupFunction =>
  (hostname, options, callback) =>
    void lookups.addressesOf(hostname).then(
      (addresses) => {
        const [first, ...others] = addresses.filter(({ address }) => allows(address));
        if (first === undefined) callback(refusal(), []);
        else if (options.all) callback(null, [first, ...others]);
        else callback(null, first.address, first.family);
      },
      (error) => callback(error, []),
    );
