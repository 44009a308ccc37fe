/**
 * The network of one container: a namespace with one address, from which the internet can be reached, and neither this
 * machine, nor another container, nor a private address. In: the project's space, a free pair of addresses, and the
 * ranges that are closed. Out: the path of the namespace, for the engine.
 *
 * The rules are in the namespace itself, where the container has no right to change them and where a reload of the
 * machine's firewall does not remove them. The machine has rules of its own (machine-routing.ts).
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  closeNetworksTo,
  LINK_PREFIX,
  type LinkedPlace,
  linkPlaces,
  MOST_CONNECTIONS,
  NEVER_OPENED,
  openNetworksTo,
  openRouting,
  outermost,
  routeLink,
  unlinkPlaces,
} from './machine-routing.js';
import type { ProjectSpace } from './project-space.js';
import { systemCommand } from './system-command.js';

/** The folder in which `ip` finds namespaces by name. */
const NAMED = '/run/netns';
/** The start of the addresses of CONTAINERS_NETWORK. */
const POOL = [198, 18] as const;

export interface NetworkPlace {
  /** Name of the namespace, `slipway-<ref>-<slot>`. */
  name: string;
  /** The number of a pair of addresses that no other container of this machine has, below 2 ** 16. */
  pair: number;
  /** Ranges that the container may not reach, as CIDRs. */
  closed: readonly string[];
  opened?: OpenedNetworks;
  /** Addresses of this machine that the container reaches at its end of the link. */
  linked?: readonly LinkedPlace[];
}

/** Networks (CIDRs) that a container may reach although they are closed, and addresses (CIDRs) that stay closed. */
export interface OpenedNetworks {
  networks: readonly string[];
  except: readonly string[];
}

/** The addresses of the machine's end and of the container's. */
export function addressesOf(pair: number): { machine: string; container: string } {
  const [first, second] = POOL;
  const at = (number: number) => `${first}.${second + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
  return { machine: at(pair * 2), container: at(pair * 2 + 1) };
}

/** Name of the machine's end, which the kernel limits to 15 characters. */
const linkOf = (pair: number) => `${LINK_PREFIX}${pair}`;

export async function openNetwork(space: ProjectSpace, place: NetworkPlace): Promise<string> {
  const { name, pair, closed, opened, linked = [] } = place;
  const file = path.join(NAMED, name);
  const { machine, container } = addressesOf(pair);
  await closeNetwork(space, place);
  await openNetworksTo(container, opened?.networks ?? []);
  await linkPlaces(container, linked);
  await openRouting();
  await mkdir(NAMED, { recursive: true, mode: 0o755 });
  await writeFile(file, '');
  await systemCommand([
    'sh',
    '-c',
    KEEP,
    'sh',
    file,
    space.mounts,
    ...space.entering(['unshare', '--net', 'sh', '-c', HOLD]),
  ]);
  const link = linkOf(pair);
  await systemCommand(['ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name]);
  await routeLink(link);
  await systemCommand(['ip', 'netns', 'exec', name, 'nft', '-f', '-'], {
    input: rulesOf({ machine, closed, opened, linked }),
  });
  await systemCommand(['ip', 'netns', 'exec', name, 'sh', '-c', BUFFERS]);
  for (const words of [
    ['address', 'add', `${machine}/31`, 'dev', link],
    ['link', 'set', link, 'up'],
    ['-n', name, 'address', 'add', `${container}/31`, 'dev', 'eth0'],
    ['-n', name, 'link', 'set', 'lo', 'up'],
    ['-n', name, 'link', 'set', 'eth0', 'up'],
    ['-n', name, 'route', 'add', 'default', 'via', machine],
  ]) {
    await systemCommand(['ip', ...words]);
  }
  return file;
}

/** Ends the connections of a container to this machine. */
export async function unlinkNetwork({ pair }: Pick<NetworkPlace, 'pair'>): Promise<void> {
  await unlinkPlaces(addressesOf(pair).container);
  await openRouting();
}

/** The machine's end of the link is removed with its namespace. */
export async function closeNetwork(
  space: ProjectSpace,
  { name, pair }: Pick<NetworkPlace, 'name' | 'pair'>,
): Promise<void> {
  const file = path.join(NAMED, name);
  const unmount = ['umount', '--lazy', file] as const;
  await systemCommand(['ip', 'link', 'delete', linkOf(pair)]).catch(() => undefined);
  await systemCommand(['nsenter', `--mount=${space.mounts}`, ...unmount]).catch(() => undefined);
  await systemCommand(unmount).catch(() => undefined);
  await closeNetworksTo(addressesOf(pair).container);
  await unlinkPlaces(addressesOf(pair).container);
  await rm(file, { force: true });
}

/** Prints that the namespace is there, and holds it until its input ends. */
const HOLD = 'echo there; read -r _';
/**
 * Script that starts a command, and keeps its network namespace in the file $1 once it has printed a line: here for
 * `ip`, and in the mount namespace $2 for the engine.
 */
const KEEP = `file=$1 space=$2; shift 2
folder=$(mktemp -d) && mkfifo "$folder/out" "$folder/in" || exit 1
"$@" <"$folder/in" >"$folder/out" &
pid=$!
exec 3>"$folder/in" 4<"$folder/out"
read -r _ <&4
mount --bind "/proc/$pid/ns/net" "$file" && nsenter --mount="$space" mount --bind "/proc/$pid/ns/net" "$file"
code=$?
exec 3>&- 4<&-
wait "$pid"
rm -r "$folder"
exit "$code"`;

/**
 * Script that limits the buffers of a TCP connection in the namespace: least, initial and most bytes. The kernel lets a
 * socket of a container keep a part of its buffers when the container's limit of memory for sockets is reached.
 */
const BUFFERS = `for name in tcp_rmem tcp_wmem; do
  echo '4096 16384 1048576' >"/proc/sys/net/ipv4/$name" || exit 1
done`;

interface Rules extends Pick<NetworkPlace, 'closed'> {
  machine: string;
  opened: OpenedNetworks | undefined;
  linked: readonly LinkedPlace[];
}

/** Connections within the namespace leave no record, as records use memory of the kernel that no limit counts. */
const rulesOf = ({ machine, closed, opened, linked }: Rules) => `table inet slipway {
  chain sending {
    type filter hook output priority raw; policy accept;
    oifname "lo" notrack
  }
  chain arriving {
    type filter hook prerouting priority raw; policy accept;
    iifname "lo" notrack
  }
  chain output {
    type filter hook output priority 0; policy accept;
    oifname "lo" accept
    ct state established,related accept
    meta nfproto ipv6 drop
    ct state new ct count over ${MOST_CONNECTIONS} drop
    ip daddr ${machine} udp dport 53 accept
    ip daddr ${machine} tcp dport 53 accept
    ${linked.map(({ port }) => `ip daddr ${machine} tcp dport ${port} accept`).join('\n    ')}
    ${openingOf(opened)}
    ip daddr { ${closed.join(', ')} } reject with icmpx admin-prohibited
  }
}
`;

function openingOf(opened: OpenedNetworks | undefined): string {
  const networks = outermost(opened?.networks ?? []);
  if (networks.length === 0) return '';
  const except = outermost([...NEVER_OPENED, ...(opened?.except ?? [])]);
  return `ip daddr { ${networks.join(', ')} } ip daddr != { ${except.join(', ')} } accept`;
}
