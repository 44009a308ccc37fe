/**
 * Networks of client addresses, and whether an address is this machine's. In: text from a socket or a proxy. Used by
 * every limit that counts by network.
 */
import ipaddr from 'ipaddr.js';

/**
 * Number of groups of an IPv6 address that identify a network. One customer of a provider may have an IPv6 network of
 * 48 bits (RFC 6177), and use any address of it.
 */
const IPV6_PREFIX_GROUPS = 3;

/**
 * Returns an IPv4 address in its usual form, also for an IPv4-mapped one; the first 48 bits of an IPv6 address, as
 * `2001:db8:1`; and text that is no address unchanged.
 */
export function networkOf(address = ''): string {
  if (!address.includes(':') || !ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  return (parsed as ipaddr.IPv6).parts
    .slice(0, IPV6_PREFIX_GROUPS)
    .map((group) => group.toString(16))
    .join(':');
}

/** True for an address of this machine, which no other machine can have. False for a name such as localhost. */
export function isLoopback(address: string): boolean {
  if (address === '127.0.0.1' || address === '::1') return true;
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}
