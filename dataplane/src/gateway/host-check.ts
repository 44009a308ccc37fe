/**
 * Which names the one-machine platform answers for. A page whose name its owner resolves to this machine (DNS
 * rebinding) would have the platform for its own origin. In: the header Host. Called by the gateway for every request;
 * on a cluster the ingress routes by name instead.
 */
import { isIP } from 'node:net';

export interface HostNames {
  publicUrl: string;
  projectsHost: string;
  /** The machine's own name, and what the installation adds. */
  allowedHosts: readonly string[];
}

export type HostCheck = (host: string | undefined) => boolean;

export function hostCheck({ publicUrl, projectsHost, allowedHosts }: HostNames): HostCheck {
  const names = new Set(['localhost', new URL(publicUrl).hostname, ...allowedHosts.map((name) => name.toLowerCase())]);
  const domain = `.${projectsHost}`;
  let last: string | undefined;
  return (host) => {
    // No browser sends a request without Host; node:http requires the header from HTTP/1.1 on.
    if (host === undefined || host === last) return true;
    const name = nameOf(host);
    // An address is what the browser connected to: nobody else chooses where it leads.
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
