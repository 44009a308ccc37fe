/**
 * Limits a process and its descendants to sockets of IPv4, Unix and netlink (the kernel's own): no IPv6 in any form, no
 * vsock, no raw frames. The kernel denies the others (seccomp), even after an exploit of the process. Needs no rights
 * and no namespace. In: the path of Deno, which can call the C library and thus installs the filter. Out: a command
 * prefix. Linux only.
 *
 * The prefix adds some 40 ms to the start of a command, but nothing to the processes that it starts. All confined
 * processes are started by one process under the filter: see `launcher`.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { systemProgram } from '../account.js';
import {
  ALLOW,
  and,
  fail,
  filterOf,
  type Instruction,
  installing,
  loadArgument,
  type Machine,
  machineHere,
  skipUnless,
} from './filter.js';

const SOCKET = [41, 198] as const;
/** Numbers of io_uring_setup, which is denied because it could open sockets past the filter. */
const IO_URING_SETUP = [425, 425] as const;

const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const SOCK_DGRAM = 2;
const SOCKET_TYPES = 0xf;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

/** `nameServersByIPv6`: IPv6 datagrams stay allowed, because the C library could otherwise resolve no name. */
function socketFilter(machine: Machine, nameServersByIPv6: boolean): Buffer {
  const datagrams: Instruction[] = [
    skipUnless(AF_INET6, 4),
    loadArgument(1),
    and(SOCKET_TYPES),
    skipUnless(SOCK_DGRAM, 1),
    ALLOW,
  ];
  const instructions = [
    loadArgument(0),
    ...[AF_UNIX, AF_INET, AF_NETLINK].flatMap((family) => [skipUnless(family, 1), ALLOW]),
    ...(nameServersByIPv6 ? datagrams : []),
    fail(EAFNOSUPPORT),
  ];
  return filterOf(machine, [
    { call: IO_URING_SETUP, instructions: [fail(ENOSYS)] },
    { call: SOCKET, instructions },
  ]);
}

/**
 * Returns the prefix of a command, which then runs under the filter with the same process id and an empty environment.
 * Returns an empty prefix if this system has no such filter.
 */
export function filteredSockets(deno: string, nameServersByIPv6 = hasNameServersByIPv6()): string[] {
  const machine = machineHere();
  if (machine === undefined) return [];
  // DENO_DIR is a path that can't exist, so Deno stores nothing on disk.
  const words = installing(deno, socketFilter(machine, nameServersByIPv6), machine);
  return [ENV, '-i', 'DENO_DIR=/dev/null', ...words];
}

const ENV = systemProgram('env') ?? 'env';

/** True if the resolver's file has a server with an IPv6 address. Read at each start under the filter. */
export function hasNameServersByIPv6(file = '/etc/resolv.conf'): boolean {
  try {
    return /^\s*nameserver\s+\S*:/m.test(readFileSync(file, 'utf8'));
  } catch {
    return false;
  }
}

/** Tests whether the kernel accepts the filter. */
export function canFilterSockets(deno: string): boolean {
  const [program, ...args] = [...filteredSockets(deno), '/bin/true'] as [string];
  return args.length > 0 && spawnSync(program, args, { timeout: 5_000 }).status === 0;
}
