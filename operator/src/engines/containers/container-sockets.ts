/**
 * The TCP sockets in a container's network, from /proc. In: a process of the container. Out: where it listens, and how
 * many connections its port has.
 */
import { readFile } from 'node:fs/promises';
import type { ContainerAddress } from './container-health.js';

/** States in /proc/net/tcp. */
const LISTEN = '0A';
const ESTABLISHED = '01';
const MOST_SHOWN = 5;

interface TcpSocket {
  /** In the kernel's notation: hexadecimal, in the byte order of the machine. */
  address: string;
  port: number;
  state: string;
}

/** Returns the number of established connections to the port. Undefined: the process has ended. */
export async function connectionsTo(pid: number, { port }: ContainerAddress): Promise<number | undefined> {
  const sockets = await socketsOf(pid);
  return sockets?.filter((socket) => socket.port === port && socket.state === ESTABLISHED).length;
}

/** Returns a sentence that says where the container listens instead of at its address. */
export async function listensInstead(pid: number, { port }: ContainerAddress): Promise<string> {
  const listening = (await socketsOf(pid))?.filter(({ state }) => state === LISTEN) ?? [];
  if (listening.some((socket) => socket.port === port && isLoopback(socket.address))) {
    return `The process listens at port ${port} of loopback only: let it listen at all addresses (0.0.0.0).`;
  }
  const others = [...new Set(listening.map((socket) => socket.port))].sort((a, b) => a - b);
  if (others.length === 0)
    return `The process listens at no port: let it listen at the port in PORT, which is ${port}.`;
  const ports = others.slice(0, MOST_SHOWN).join(', ');
  return `The process listens at port ${ports} instead of the port in PORT, which is ${port}.`;
}

async function socketsOf(pid: number): Promise<TcpSocket[] | undefined> {
  const tables = await Promise.all(
    ['tcp', 'tcp6'].map((name) => readFile(`/proc/${pid}/net/${name}`, 'latin1').catch(() => undefined)),
  );
  if (tables[0] === undefined) return undefined;
  return tables.flatMap((table = '') => table.split('\n').slice(1).flatMap(socketIn));
}

function socketIn(line: string): TcpSocket[] {
  const [, local, , state] = line.trim().split(/\s+/);
  const [address, port] = local?.split(':') ?? [];
  return address && port && state ? [{ address, port: Number.parseInt(port, 16), state }] : [];
}

/** 127.0.0.0/8 and ::1. */
const isLoopback = (address: string): boolean =>
  address.length === 8 ? address.endsWith('7F') : address === '00000000000000000000000001000000';
