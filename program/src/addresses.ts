/**
 * Judges the addresses that hosts of a tenant resolve to. Pure. In: networks that the installation allows and blocks,
 * as CIDRs. Used by outbound.ts for all connections to such hosts, and as a list by network policies and Deno.
 */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * IPv4 ranges that are not public: pods, Services, nodes, clouds' metadata, loopback, documentation, multicast.
 * NetworkPolicies use only these: a range of IPv6 may keep a cluster without IPv6 from enforcing the whole policy.
 */
export const NOT_PUBLIC = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
] as const;

/**
 * IPv6 ranges that are not public: all except 2000::/3, and within it those that represent other addresses (Teredo,
 * 6to4) or are for documentation.
 */
const NOT_PUBLIC_IPV6 = [
  '::/3',
  '4000::/2',
  '8000::/1',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
] as const;

/**
 * Networks that no installation can allow: metadata services of clouds return credentials of the machine to any client
 * that can connect. An address of ::ffff:0:0/96 is another form of an IPv4 address, which the IPv4 networks would miss.
 */
const NEVER = ['169.254.0.0/16', '0.0.0.0/8'] as const;
const NEVER_IPV6 = ['fe80::/10', 'fd00:ec2::/32', '::/128', '::ffff:0:0/96'] as const;

export interface AddressNetworks {
  /** Networks that are allowed, although they are not public. */
  allowed?: readonly string[];
  /** Networks that are not allowed, although they are public. */
  blocked?: readonly string[];
}

/**
 * Returns a function that is true for the addresses of the reach, and false for text that is no address.
 * @throws Error that names a network which is no CIDR
 */
export function addressesOf({ allowed = [], blocked = [] }: AddressNetworks): (address: string) => boolean {
  const [isAllowed, isNever] = [within(allowed), within([...NEVER, ...NEVER_IPV6])];
  const isClosed = within([...NOT_PUBLIC, ...NOT_PUBLIC_IPV6, ...blocked]);
  return (address) => isIP(address) !== 0 && ((isAllowed(address) && !isNever(address)) || !isClosed(address));
}

/**
 * Returns a function that is true for addresses in one of the networks. An IPv4-mapped IPv6 address is in networks of
 * IPv6 alone.
 * @throws Error that names a network which is no CIDR
 */
export function within(cidrs: readonly string[]): (address: string) => boolean {
  const networks = cidrs.map((cidr) => {
    if (!ipaddr.isValidCIDR(cidr)) throw new Error(`${cidr} is no CIDR such as 198.51.100.0/24`);
    return ipaddr.parseCIDR(cidr);
  });
  return (address) => {
    const parsed = ipaddr.parse(address);
    return networks.some(([network, bits]) => network.kind() === parsed.kind() && parsed.match(network, bits));
  };
}

/**
 * Returns the IPv4 ranges that stay refused if `allowed` are allowed, for programs that compare no ports, such as Deno.
 * Loopback is always among them, because the platform listens there.
 */
export function refusedRanges(allowed: readonly string[]): string[] {
  const networks = allowed.filter((cidr) => !cidr.includes(':'));
  const left = NOT_PUBLIC.flatMap((range) => networks.reduce(without, [range as string]));
  return [...new Set([...left, ...NEVER, LOOPBACK])];
}

const LOOPBACK = '127.0.0.0/8';

/** Returns the ranges without the addresses of `network`. A range that has others too is halved. */
function without(ranges: readonly string[], network: string): string[] {
  const [address, bits] = ipaddr.IPv4.parseCIDR(network);
  return ranges.flatMap((range) => {
    const [first, rangeBits] = ipaddr.IPv4.parseCIDR(range);
    if (first.match(address, Math.min(bits, rangeBits)) === false) return [range];
    return bits <= rangeBits ? [] : without(halves(first, rangeBits), network);
  });
}

function halves(first: ipaddr.IPv4, bits: number): [string, string] {
  const octets = [...first.octets];
  octets[bits >> 3] = (octets[bits >> 3] as number) | (0x80 >> (bits & 7));
  return [`${first.toString()}/${bits + 1}`, `${octets.join('.')}/${bits + 1}`];
}
