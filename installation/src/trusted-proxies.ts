/**
 * The setting that names the reverse proxies whose X-Forwarded-For is trusted. In: its text. Out: networks. Used by the
 * one-machine programs.
 */
import { BlockList, isIP } from 'node:net';

export const TRUSTED_PROXIES_SETTING = 'SLIPWAY_TRUSTED_PROXIES';

/** Returns undefined if the variable is not set. Throws an error that names the variable. */
export function readTrustedProxies(value: string | undefined): BlockList | undefined {
  const networks = (value ?? '').split(',').flatMap((part) => part.trim() || []);
  if (networks.length === 0) return undefined;
  const list = new BlockList();
  for (const network of networks) add(list, network);
  return list;
}

function add(list: BlockList, network: string): void {
  const [address = '', length] = network.split('/');
  const family = isIP(address);
  const most = family === 6 ? 128 : 32;
  const prefix = length === undefined ? most : /^\d{1,3}$/.test(length) ? Number(length) : Number.NaN;
  if (family === 0 || !(prefix <= most)) {
    throw new Error(
      `${TRUSTED_PROXIES_SETTING} has ${JSON.stringify(network)}: ` +
        'set addresses or networks separated by commas, such as 127.0.0.1 or 10.0.0.0/8',
    );
  }
  list.addSubnet(address, prefix, family === 6 ? 'ipv6' : 'ipv4');
}
