/**
 * Judges connections of auth to hosts in a project's settings: hooks, providers and mail servers. In: the settings of
 * the installation. Out: a function for outbound.ts, and the reason of a refusal. The data plane connects by it, and
 * the operator reports by it which hosts are refused.
 */
import { isIP } from 'node:net';
import {
  ALLOWED_NETWORKS_SETTING,
  type Allows,
  addressesOf,
  connectionsOf,
  type Destination,
  isLoopback,
  type Reach,
} from '@slipway/program';
import type { Installation } from './installation.js';
import { hasSites, projectsHostOf } from './web-addresses.js';

type Places = Pick<Installation, 'publicUrl' | 'projectsDomain'>;

export interface TenantReachOptions {
  installation: Places & Partial<Pick<Installation, 'site'>>;
  /** The networks of one machine. */
  reach?: Reach | undefined;
}

export interface TenantReach {
  allows: Allows;
  /** True for a destination that is allowed by its host and port, at any address. */
  allowsHost(to: Destination): boolean;
  /** The reason of a refusal, for the project's owner. It names the setting that allows a network. */
  reason: string;
}

/** @throws Error that names a network which is no CIDR */
export function tenantReach({ installation, reach }: TenantReachOptions): TenantReach {
  if (installation.site) return clusterReach(installation.site.blockedAddresses);
  const allowsAddress = connectionsOf(reach ?? { allowed: [] });
  const allowsHost = publicPlace(installation);
  return {
    allows: (address, to) => allowsHost(to) || allowsAddress(address, to),
    allowsHost,
    reason: `the address is not public; an administrator can allow its network in ${ALLOWED_NETWORKS_SETTING}`,
  };
}

/** `blocked`: CIDRs of the site besides those that are not public. */
function clusterReach(blocked: readonly string[]): TenantReach {
  const reason = 'the address is not public, or blockedAddresses contains it';
  try {
    return { allows: addressesOf({ blocked }), allowsHost: () => false, reason };
  } catch (error) {
    throw new Error(`blockedAddresses of the site: ${(error as Error).message}`);
  }
}

/**
 * Returns a function that is true for host and port of the public URL and of the projects' URLs. All clients may
 * connect there, and the installation chose these names, so no tenant can make them resolve to another address.
 */
export function publicPlace(installation: Places): (to: Destination) => boolean {
  const { hostname, port, protocol } = new URL(installation.publicUrl);
  const name = hostname.replace(/^\[(.*)\]$/, '$1');
  const names = isOfThisMachine(name) ? [name, 'localhost', '127.0.0.1', '::1'] : [name];
  // Without a domain of their own, projects have no host names: a name below the public URL's may be another server.
  const projects = hasSites(installation) ? projectsHostOf(installation) : undefined;
  const publicPort = Number(port) || (protocol === 'https:' ? 443 : 80);
  const projectsPort = Number(/:(\d+)$/.exec(installation.projectsDomain ?? '')?.[1]) || publicPort;
  const isProject = (host: string) => projects !== undefined && isIP(projects) === 0 && host.endsWith(`.${projects}`);
  return ({ host, port: to }) =>
    (to === publicPort && names.includes(host)) || (to === projectsPort && isProject(host));
}

const isOfThisMachine = (name: string) => name === 'localhost' || name.endsWith('.localhost') || isLoopback(name);
