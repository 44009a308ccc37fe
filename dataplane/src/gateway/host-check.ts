/**
 * Checks the header Host on one machine. Otherwise a hostile page could resolve its own name to this machine (DNS
 * rebinding) and act with the platform's origin. Called by the gateway for every request. On a cluster, the ingress
 * routes by host name instead.
 */
import { isIP } from 'node:net';

export interface HostNames {
  publicUrl: string;
  projectsHost: string;
  /** Names of this machine, and those that the installation adds. */
  allowedHosts: readonly string[];
}

export type HostCheck = (host: string | undefined) => boolean;

export function hostCheck({ publicUrl, projectsHost, allowedHosts }: HostNames): HostCheck {
  const names = new Set(['localhost', new URL(publicUrl).hostname, ...allowedHosts.map((name) => name.toLowerCase())]);
  const domain = `.${projectsHost}`;
  let last: string | undefined;
  return (host) => {
    // Every browser sends Host, and node:http requires it from HTTP/1.1 on.
    if (host === undefined || host === last) return true;
    const name = nameOf(host);
    // A browser connects to an IP address directly: no name is resolved that could be rebound.
    const accepted = names.has(name) || name.endsWith('.localhost') || name.endsWith(domain) || isAddress(name);
    if (accepted) last = host;
    return accepted;
  };
}

function nameOf(host: string): string {
  const name = host.replace(/:\d*$/, '').toLowerCase();
  return name.endsWith('.') ? name.slice(0, -1) : name;
}

const isAddress = (name: string) => isIP(name.startsWith('[') ? name.slice(1, -1) : name) !== 0;
