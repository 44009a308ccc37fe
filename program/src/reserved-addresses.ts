/** Addresses that are not public, as CIDRs: on a cluster, hosts that a tenant names must not resolve to them. */

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
export const NOT_PUBLIC_IPV6 = [
  '::/3',
  '4000::/2',
  '8000::/1',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
] as const;
