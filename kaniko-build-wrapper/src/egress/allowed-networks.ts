/** The networks that an installation allows its builds, besides the internet. */
import { BlockList, isIP, isIPv6 } from 'node:net';

/**
 * Networks that no installation can allow: metadata services of clouds return credentials of the machine to any client
 * that can connect.
 */
const NEVER = ['169.254.0.0/16', 'fe80::/10', 'fd00:ec2::/32', '0.0.0.0/8', '::/128'];

/**
 * Returns a function that is true for addresses in `networks`. It is never true for link-local addresses and metadata
 * services.
 */
export function allowedAddresses(networks: readonly string[]): (address: string) => boolean {
  const [allowed, never] = [listOf(networks), listOf(NEVER)];
  return (address) => allowed(address) && !never(address);
}

function listOf(networks: readonly string[]): (address: string) => boolean {
  // In one list of both families, an IPv4 address would also match the IPv6 address that it maps to.
  const lists = { 4: new BlockList(), 6: new BlockList() };
  for (const cidr of networks) {
    const [network = '', prefix] = cidr.split('/');
    if (isIPv6(network)) lists[6].addSubnet(network, Number(prefix), 'ipv6');
    else lists[4].addSubnet(network, Number(prefix), 'ipv4');
  }
  return (address) => {
    const family = isIP(address);
    if (family === 4) return lists[4].check(address, 'ipv4');
    return family === 6 && lists[6].check(address, 'ipv6');
  };
}
