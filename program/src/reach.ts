/**
 * Judges outgoing connections to hosts that a tenant names, by address and port. In: the networks of the installation
 * and the ports of the platform. Out: a function for outbound.ts. The addresses of this machine are refused, because
 * programs that trust local clients listen there. A network that the installation allows may include them, but the
 * ports of the platform stay refused.
 */
import { networkInterfaces } from 'node:os';
import { addressesOf, within } from './addresses.js';
import type { Environment } from './settings.js';

/** Decides about a connection to `address`, to which the host of the tenant resolved. */
export type Allows = (address: string, to: Destination) => boolean;

export interface Destination {
  /** Host that the tenant named, as `hostOf` returns it: a name, or an IP address without brackets. */
  host: string;
  port: number;
}

/** Returns the host in lower case. `[::1]` becomes `::1`. */
export const hostOf = (host: string): string => host.toLowerCase().replace(/^\[(.*)\]$/, '$1');

export interface Reach {
  /** Networks (CIDRs) outside of the internet that the installation allows. */
  allowed: readonly string[];
  /** Networks (CIDRs) of the internet that the installation refuses. */
  blocked?: readonly string[];
  /** Ports at which the platform listens on this machine. */
  ownPorts?: readonly number[];
}

/** @throws Error that names a network which is no CIDR */
export function connectionsOf({ allowed, blocked = [], ownPorts = [] }: Reach): Allows {
  const [isReached, isAllowed, isLocal] = [addressesOf({ allowed, blocked }), within(allowed), within(LOCAL)];
  const ports = new Set(ownPorts);
  return (address, { port }) => {
    if (!isReached(address)) return false;
    const isOwn = isLocal(address) || interfaceAddresses().has(address);
    return !isOwn || (isAllowed(address) && !ports.has(port));
  };
}

const LOCAL = ['127.0.0.0/8', '::1/128'];

/** Read for each connection, because the addresses of a machine change. */
const interfaceAddresses = () =>
  new Set(Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? []));

export const ALLOWED_NETWORKS_SETTING = 'SLIPWAY_ALLOWED_NETWORKS';
export const OWN_PORTS_SETTING = 'SLIPWAY_OWN_PORTS';

/**
 * Reads the reach of one machine's tenants from the environment.
 * @throws Error that names an invalid variable
 */
export const readReach = (environment: Environment): Reach => ({
  allowed: readNetworks(environment[ALLOWED_NETWORKS_SETTING]),
  ownPorts: readPorts(environment[OWN_PORTS_SETTING]),
});

/** @throws Error that names the setting */
export function readNetworks(text = ''): string[] {
  const networks = partsOf(text);
  try {
    within(networks);
  } catch {
    throw new Error(`${ALLOWED_NETWORKS_SETTING} must be a list of networks, such as 10.1.0.0/16,192.168.7.0/24`);
  }
  return networks;
}

function readPorts(text = ''): number[] {
  const ports = partsOf(text);
  if (!ports.every((port) => /^\d{1,5}$/.test(port)))
    throw new Error(`${OWN_PORTS_SETTING} must be a list of ports, such as 4000,4001`);
  return ports.map(Number);
}

const partsOf = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean);
