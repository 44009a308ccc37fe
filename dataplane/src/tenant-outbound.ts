/**
 * Connections to hosts in a project's settings: hooks, providers and mail servers. In: settings. Out: an Outbound that
 * refuses addresses which are not public, unless the installation allows their networks. The platform's own public URL
 * is allowed by its name, so that a hook may be a function of the project.
 */
import { isIP } from 'node:net';
import { hasSites, type Installation, projectsHostOf } from '@slipway/installation';
import { ALLOWED_NETWORKS_SETTING, connectionsOf, isLoopback } from '@slipway/program';
import { type Destination, type Outbound, outboundTo, publicOnly } from '@slipway/program/outbound.js';
import type { DataplaneSettings } from './settings.js';

type TenantReach = Pick<DataplaneSettings, 'reach'> & {
  installation: Pick<Installation, 'publicUrl' | 'projectsDomain'> & Partial<Pick<Installation, 'site'>>;
};

export function tenantOutbound({ installation, reach }: TenantReach): Outbound {
  if (installation.site) return publicOnly(installation.site.blockedAddresses);
  const allows = connectionsOf(reach ?? { allowed: [] });
  const isPlatform = publicPlace(installation);
  const reason = `the address is not public; an administrator can allow its network in ${ALLOWED_NETWORKS_SETTING}`;
  return outboundTo((address, to) => isPlatform(to) || allows(address, to), reason);
}

/**
 * Returns a function that is true for host and port of the public URL and of the projects' URLs. All clients may
 * connect there, and the installation chose these names, so no tenant can make them resolve to another address.
 */
export function publicPlace(installation: Pick<Installation, 'publicUrl' | 'projectsDomain'>) {
  const { hostname, port, protocol } = new URL(installation.publicUrl);
  const name = hostname.replace(/^\[(.*)\]$/, '$1');
  const names = isOfThisMachine(name) ? [name, 'localhost', '127.0.0.1', '::1'] : [name];
  // Without a domain of their own, projects have no host names: a name below the public URL's may be another server.
  const projects = hasSites(installation) ? projectsHostOf(installation) : undefined;
  const publicPort = Number(port) || (protocol === 'https:' ? 443 : 80);
  const projectsPort = Number(/:(\d+)$/.exec(installation.projectsDomain ?? '')?.[1]) || publicPort;
  const isProject = (host: string) => projects !== undefined && isIP(projects) === 0 && host.endsWith(`.${projects}`);
  return ({ host, port: to }: Destination): boolean =>
    (to === publicPort && names.includes(host)) || (to === projectsPort && isProject(host));
}

const isOfThisMachine = (name: string) => name === 'localhost' || name.endsWith('.localhost') || isLoopback(name);
