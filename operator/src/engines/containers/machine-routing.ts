/**
 * The rules of this machine for packets of containers: a container reaches public addresses, from an address of this
 * machine, and nothing else. In: the links to the outside. Out: one table of nftables for all platforms of this
 * machine. The table depends on none of them, and each of them can write it again at any time.
 *
 * The rules in the namespace of a container come first. These rules hold without them.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { isIPv4 } from 'node:net';
import path from 'node:path';
import { CONTAINERS_NETWORK } from '@slipway/installation';
import { NOT_PUBLIC, namesIn, replaceFile, within } from '@slipway/program';
import { linesOf, systemCommand } from './system-command.js';

/** Prefix of the machine's ends of the links to containers. */
export const LINK_PREFIX = 'slipway';
/** Connections of one container that the kernel keeps a record of. Further ones are dropped. */
export const MOST_CONNECTIONS = 8192;
/** Port of the machine's end to which the rules send queries to port 53, where a resolver may listen already. */
export const RESOLVER_PORT = 1053;

const TABLE = 'slipway_apps';
const SETTINGS = '/proc/sys/net/ipv4';
/** Networks of this machine, and metadata services of clouds, which no installation can open. */
export const NEVER_OPENED = [CONTAINERS_NETWORK, '127.0.0.0/8', '169.254.0.0/16', '0.0.0.0/8', '224.0.0.0/4'] as const;
/** A file for each container with the private networks that it may reach. A reboot empties it. */
const OPENED = '/run/slipway-opened';
/** Names of the links at which this machine forwards only packets of containers. A reboot empties it. */
const ROUTED = '/run/slipway-routed';
/** A file for each container with the addresses of this machine that it may reach, `host:port`. */
const LINKED = '/run/slipway-linked';

/**
 * Writes the table, and lets packets from `outside` be forwarded to containers. If this machine forwards no other
 * packets yet, the table drops those that it would forward from there from now on.
 */
export async function openRouting(outside?: readonly string[]): Promise<void> {
  const isRouter = (await readFile(path.join(SETTINGS, 'ip_forward'), 'utf8')).trim() === '1';
  await mkdir(ROUTED, { recursive: true, mode: 0o700 });
  const closed = isRouter ? [] : (outside ?? (await outsideLinks()));
  const opened: string[] = [];
  for (const link of closed) {
    const file = path.join(SETTINGS, 'conf', link, 'forwarding');
    if ((await readFile(file, 'utf8')).trim() === '1') continue;
    await writeFile(path.join(ROUTED, link), '');
    opened.push(file);
  }
  await systemCommand(['nft', '-f', '-'], {
    input: rulesOf({
      routed: isRouter ? [] : await readdir(ROUTED),
      opened: await openedPairs(),
      linked: await linkedPlaces(),
    }),
  });
  for (const file of opened) await writeFile(file, '1');
}

/**
 * Sets the properties of a new link before it is up: its packets are forwarded, and have its addresses. IPv6 is off.
 * The rules drop packets to loopback, except those that the rules themselves send there.
 */
export async function routeLink(link: string): Promise<void> {
  const properties = {
    forwarding: 1,
    route_localnet: 1,
    rp_filter: 1,
    arp_ignore: 1,
    accept_redirects: 0,
    send_redirects: 0,
  };
  for (const [name, value] of Object.entries({ ...properties, accept_source_route: 0 })) {
    await writeFile(path.join(SETTINGS, 'conf', link, name), String(value));
  }
  // A kernel without IPv6 does not have the file.
  await writeFile(`/proc/sys/net/ipv6/conf/${link}/disable_ipv6`, '1').catch(() => undefined);
}

/** Records the private networks that a container may reach, for each later `openRouting`. */
export async function openNetworksTo(container: string, networks: readonly string[]): Promise<void> {
  await closeNetworksTo(container);
  if (networks.length === 0) return;
  await mkdir(OPENED, { recursive: true, mode: 0o700 });
  await replaceFile(path.join(OPENED, container), outermost(networks).join('\n'));
}

export const closeNetworksTo = (container: string): Promise<void> => rm(path.join(OPENED, container), { force: true });

/** An address of this machine, with the port at which containers reach it. */
export interface LinkedPlace {
  host: string;
  port: number;
}

/** Records the addresses of this machine that a container may reach, for each later `openRouting`. */
export async function linkPlaces(container: string, places: readonly LinkedPlace[]): Promise<void> {
  await unlinkPlaces(container);
  if (places.length === 0) return;
  await mkdir(LINKED, { recursive: true, mode: 0o700 });
  await replaceFile(path.join(LINKED, container), places.map(({ host, port }) => `${host}:${port}`).join('\n'));
}

export const unlinkPlaces = (container: string): Promise<void> => rm(path.join(LINKED, container), { force: true });

/** Returns the IPv4 networks without those that are in another one, as a set of nftables must not overlap. */
export function outermost(networks: readonly string[]): string[] {
  const distinct = [...new Set(networks)].filter((network) => !network.includes(':'));
  const partsOf = (network: string) => network.split('/') as [string, string];
  return distinct.filter((network) => {
    const [address, bits] = partsOf(network);
    return !distinct.some((other) => Number(partsOf(other)[1]) < Number(bits) && within([other])(address));
  });
}

/** Returns the elements of the set `opened`. */
const openedPairs = async (): Promise<string[]> =>
  (await linesOfContainers(OPENED)).map(({ container, line }) => `${container} . ${line}`);

async function linkedPlaces(): Promise<{ container: string; host: string; port: string }[]> {
  return (await linesOfContainers(LINKED)).map(({ container, line }) => {
    const [host, port] = line.split(':') as [string, string];
    return { container, host, port };
  });
}

/** Returns the lines of all files that are named by the address of a container. */
async function linesOfContainers(folder: string): Promise<{ container: string; line: string }[]> {
  const containers = (await namesIn(folder)).filter((name) => isIPv4(name));
  const lists = await Promise.all(
    containers.map(async (container) => {
      const text = await readFile(path.join(folder, container), 'utf8').catch(() => '');
      return linesOf(text).map((line) => ({ container, line }));
    }),
  );
  return lists.flat();
}

/** Returns the chains of other tables that drop forwarded packets by default: no rule of ours can undo that. */
export async function foreignDrops(): Promise<string[]> {
  const listed = await systemCommand(['nft', 'list', 'chains']);
  const drops: string[] = [];
  let [table, chain] = ['', ''];
  for (const line of linesOf(listed)) {
    table = /^table (\S+ \S+) \{/.exec(line)?.[1] ?? table;
    chain = /^\s+chain (\S+) \{/.exec(line)?.[1] ?? chain;
    if (/hook forward .*policy drop/.test(line)) drops.push(`${table} ${chain}`);
  }
  return drops;
}

/** Returns the links of the default routes. */
async function outsideLinks(): Promise<string[]> {
  const routes = linesOf(await systemCommand(['ip', '-4', 'route', 'show', 'default']));
  return [...new Set(routes.flatMap((route) => [...route.matchAll(/\bdev (\S+)/g)].map(([, link]) => link as string)))];
}

interface Rules {
  routed: readonly string[];
  opened: readonly string[];
  linked: readonly { container: string; host: string; port: string }[];
}

const linkedElements = ({ container, host, port }: Rules['linked'][number]) =>
  `add element inet ${TABLE} linked { ${container} . ${host} . ${port} }
add element inet ${TABLE} linked_to { ${container} . ${port} : ${host} . ${port} }`;

/**
 * Flushing the table removes its rules alone: the counts of connections stay. nft applies the whole text at once, or
 * nothing of it. `opened` has pairs of a container and a network that it may reach although the network is private.
 * `linked` has addresses of this machine: a container reaches them at its own end of the link.
 */
const rulesOf = ({ routed, opened, linked }: Rules) => `table inet ${TABLE} {
  set routed { type ifname; }
  set opened { type ipv4_addr . ipv4_addr; flags interval; }
  set linked { type ipv4_addr . ipv4_addr . inet_service; }
  map linked_to { type ipv4_addr . inet_service : ipv4_addr . inet_service; }
  set tracked { type ipv4_addr; size 65536; flags dynamic; }
}
flush table inet ${TABLE}
flush set inet ${TABLE} routed
flush set inet ${TABLE} linked
flush map inet ${TABLE} linked_to
flush set inet ${TABLE} opened
${opened.map((pair) => `add element inet ${TABLE} opened { ${pair} }`).join('\n')}
${linked.map(linkedElements).join('\n')}
${routed.map((link) => `add element inet ${TABLE} routed { "${link}" }`).join('\n')}
table inet ${TABLE} {
  chain arriving {
    type filter hook prerouting priority raw; policy accept;
    iifname "${LINK_PREFIX}*" meta nfproto ipv6 drop
    iifname "${LINK_PREFIX}*" ip saddr != ${CONTAINERS_NETWORK} drop
    iifname "${LINK_PREFIX}*" ip daddr 127.0.0.0/8 drop
    iifname "${LINK_PREFIX}*" fib saddr . iif oif missing drop
  }
  chain queries {
    type nat hook prerouting priority dstnat - 10; policy accept;
    iifname != "${LINK_PREFIX}*" return
    fib daddr . iif type local meta l4proto { tcp, udp } th dport 53 redirect to :${RESOLVER_PORT}
    fib daddr . iif type local dnat ip to ip saddr . tcp dport map @linked_to
  }
  chain input_hook {
    type filter hook input priority filter - 10; policy accept;
    iifname "${LINK_PREFIX}*" jump to_machine
  }
  chain to_machine {
    ct direction reply ct state established,related accept
    ct status dnat ip saddr . ip daddr . tcp dport @linked jump to_linked
    fib daddr . iif type != local drop
    ct state new add @tracked { ip saddr ct count over ${MOST_CONNECTIONS} } drop
    meta l4proto { tcp, udp } th dport ${RESOLVER_PORT} accept
    drop
  }
  chain to_linked {
    ct state new add @tracked { ip saddr ct count over ${MOST_CONNECTIONS} } drop
    accept
  }
  chain forward_hook {
    type filter hook forward priority filter - 10; policy accept;
    iifname "${LINK_PREFIX}*" jump from_container
    oifname "${LINK_PREFIX}*" jump to_container
    iifname @routed drop
  }
  chain from_container {
    oifname "${LINK_PREFIX}*" drop
    ip daddr { ${NEVER_OPENED.join(', ')} } drop
    ip saddr . ip daddr != @opened ip daddr { ${NOT_PUBLIC.join(', ')} } drop
    ct state established,related accept
    ct state new add @tracked { ip saddr ct count over ${MOST_CONNECTIONS} } drop
    ct state new accept
    drop
  }
  chain to_container {
    ct state established,related accept
    drop
  }
  chain leaving {
    type nat hook postrouting priority srcnat - 10; policy accept;
    iifname "${LINK_PREFIX}*" oifname != "${LINK_PREFIX}*" masquerade
  }
}
`;
