/**
 * Settings with addresses for browsers: origins, and the domain of projects. Used by the installation and the site's
 * settings.
 */
import type { ContainerEngine } from './container-engine.js';

export const CORS_ORIGINS_SETTING = 'SLIPWAY_CORS_ORIGINS';
export const ALLOWED_HOSTS_SETTING = 'SLIPWAY_ALLOWED_HOSTS';
export const PROJECTS_DOMAIN_SETTING = 'SLIPWAY_PROJECTS_DOMAIN';

/**
 * Pattern of an origin as a browser sends it: scheme, host name in lower case, and a port unless it is the scheme's
 * default.
 */
export const ORIGIN_PATTERN = '^https?://([a-z0-9.-]+|\\[[0-9a-f:]+\\])(:[0-9]{1,5})?$';
export const DOMAIN_PATTERN = '^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$';

/** Throws an error that names the variable. */
export function readOrigins(value: string | undefined): string[] {
  const origins = (value ?? '').split(',').flatMap((part) => part.trim() || []);
  for (const origin of origins) {
    if (new RegExp(ORIGIN_PATTERN).test(origin) && new URL(origin).origin === origin) continue;
    throw new Error(
      `${CORS_ORIGINS_SETTING} has ${JSON.stringify(origin)}: ` +
        'set origins separated by commas, such as https://console.example.com',
    );
  }
  return origins;
}

/** Throws an error that names the variable. */
export function readProjectsDomain(value: string | undefined): string | undefined {
  if (!value) return undefined;
  if (new RegExp(DOMAIN_PATTERN).test(value) && URL.canParse(`http://${value}`)) return value;
  throw new Error(`${PROJECTS_DOMAIN_SETTING} is ${JSON.stringify(value)}: set a domain, such as projects.example.net`);
}

/** Throws an error that names the variable. */
export function readAllowedHosts(value: string | undefined): string[] {
  const names = (value ?? '').split(',').flatMap((part) => part.trim().toLowerCase() || []);
  for (const name of names) {
    if (isHostName(name)) continue;
    throw new Error(
      `${ALLOWED_HOSTS_SETTING} has ${JSON.stringify(name)}: ` +
        'set host names without ports, separated by commas, such as backend.internal',
    );
  }
  return names;
}

/** Returns the host name in lower case, without a port. */
export const isHostName = (name: string): boolean => /^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/.test(name);

/** Throws an error that names both settings if the platform's host name would be that of a project. */
export function checkPlatformHost({ publicUrl, projectsDomain }: ProjectPlaces): void {
  if (projectsDomain === undefined) return;
  const [platform, projects] = [new URL(publicUrl).hostname, projectsHostOf({ publicUrl, projectsDomain })];
  if (!platform.endsWith(`.${projects}`)) return;
  throw new Error(
    `The public URL's host ${platform} is below the projects' domain ${projects} (SLIPWAY_PUBLIC_URL and ` +
      `${PROJECTS_DOMAIN_SETTING}, or publicUrl and projectsDomain of a site), so it would be a project's: ` +
      `set another domain for projects, such as projects.${projects}`,
  );
}

export interface ProjectPlaces {
  publicUrl: string;
  /**
   * The domain of projects' host names, with a port if it differs from the public URL's; undefined: the public URL's
   * host.
   */
  projectsDomain?: string | undefined;
  /** Undefined: a cluster, which runs no containers of apps. */
  containerEngine?: ContainerEngine | undefined;
  /** True if a provider of machines is configured. */
  hasMachines?: boolean;
}

/** Returns a project's address in an installation where each project has its own host name. */
export function projectUrlByHost({ publicUrl, projectsDomain }: ProjectPlaces, ref: string): string {
  const { protocol, host, port } = new URL(publicUrl);
  if (projectsDomain === undefined) return `${protocol}//${ref}.${host}`;
  const ownPort = projectsDomain.includes(':') || port === '' ? '' : `:${port}`;
  return `${protocol}//${ref}.${projectsDomain}${ownPort}`;
}

/** Returns the host name, without a port, below which each project's host name is. */
export const projectsHostOf = ({ publicUrl, projectsDomain }: ProjectPlaces): string =>
  projectsDomain === undefined ? new URL(publicUrl).hostname : projectsDomain.replace(/:\d+$/, '');

/**
 * Returns the origin of a project's site. Pages of other people need their own origin, outside of the platform's
 * domain. So the result is undefined without a domain for projects, unless only this machine reaches the platform.
 */
export const siteUrlOf = (places: ProjectPlaces, ref: string): string | undefined =>
  hasSites(places) ? projectUrlByHost(places, ref) : undefined;

/** False also if the projects' domain is the platform's own host. */
export const hasSites = (places: ProjectPlaces): boolean => {
  const { hostname } = new URL(places.publicUrl);
  return isLoopbackName(hostname) || projectsHostOf(places) !== hostname;
};

/** Browsers and resolvers resolve each name below localhost to this machine (RFC 6761). */
const isLoopbackName = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost');
