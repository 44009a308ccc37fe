/** Groups IP addresses by network, for limits that count by caller. */
import { createHash } from 'node:crypto';

/** One customer's IPv6 addresses are as many as they like: they count as one by their network, the first 64 bits. */
export function networkOf(address: string): string {
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address;
  if (!plain.includes(':')) return plain;
  const [before = '', after] = plain.split('::');
  const [first, last] = [before, after ?? ''].map((part) => part.split(':').filter((group) => group !== '')) as [
    string[],
    string[],
  ];
  const zeros = after === undefined ? 0 : Math.max(0, 8 - first.length - last.length);
  const groups = [...first, ...Array<string>(zeros).fill('0'), ...last];
  return groups
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ''))
    .join(':');
}

/**
 * From where a project's functions call: they come over sockets, which have no address. One of the unique local ones
 * (RFC 4193) that tells projects apart in its first 64 bits.
 */
export function functionsAddress(ref: string): string {
  const hash = createHash('sha256').update(ref).digest('hex').slice(0, 14);
  return `${`fd${hash}`.match(/.{4}/g)?.join(':')}::1`;
}
