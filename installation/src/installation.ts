/**
 * The installation that a program belongs to. In: the environment. Out: its public address, the services that it opens,
 * and the addresses of projects: on a cluster from the site's settings, on one machine from variables. Read once, at
 * start.
 */
import { readFileSync } from 'node:fs';
import { type OpenedServices, openedServices, SHARED_SERVICES_SETTING } from './availability.js';
import { CONTAINER_ENGINE_SETTING, readContainerEngine } from './container-engine.js';
import { MACHINE_TOKEN_SETTING } from './machine-provider.js';
import { readSite, SITE_SETTING, type Site } from './site.js';
import {
  CORS_ORIGINS_SETTING,
  checkPlatformHost,
  PROJECTS_DOMAIN_SETTING,
  type ProjectPlaces,
  projectUrlByHost,
  readOrigins,
  readProjectsDomain,
} from './web-addresses.js';

export const PUBLIC_URL_SETTING = 'SLIPWAY_PUBLIC_URL';

export interface Installation extends ProjectPlaces {
  /** The URL that users type, without a slash at the end. */
  publicUrl: string;
  /** Origins whose pages may call the management API, beside its own. */
  corsOrigins?: readonly string[];
  /** Services that the settings open beyond the availability matrix. */
  openedServices: OpenedServices;
  /** Undefined: one machine. */
  site: Site | undefined;
}

/** Throws an error that names the variable and the fault. */
export function readInstallation(environment: Record<string, string | undefined>): Installation {
  const file = environment[SITE_SETTING];
  const installation = file ? ofSite(file, environment) : ofMachine(environment);
  checkPlatformHost(installation);
  return installation;
}

/** Returns a project's address: a path of the public URL on one machine, unless projects have a domain. */
export const projectUrlOf = (installation: ProjectPlaces & Pick<Installation, 'site'>, ref: string): string =>
  hasProjectHosts(installation) ? projectUrlByHost(installation, ref) : `${installation.publicUrl}/p/${ref}`;

/** True if each project has its own host name, and so its own origin. */
export const hasProjectHosts = ({ site, projectsDomain }: Pick<Installation, 'site' | 'projectsDomain'>): boolean =>
  site !== undefined || projectsDomain !== undefined;

function ofSite(file: string, environment: Record<string, string | undefined>): Installation {
  for (const [setting, field] of [
    [PUBLIC_URL_SETTING, 'publicUrl'],
    [SHARED_SERVICES_SETTING, 'openedServices'],
    [PROJECTS_DOMAIN_SETTING, 'projectsDomain'],
    [CORS_ORIGINS_SETTING, 'corsOrigins'],
  ] as const) {
    if (environment[setting]) {
      throw new Error(`${setting} is set beside ${SITE_SETTING}: leave it out, as ${field} of that file says it`);
    }
  }
  let site: Site;
  try {
    site = readSite(readFileSync(file, 'utf8'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Error(`${SITE_SETTING}: ${file} ${code ? `can not be read (${code})` : message}`);
  }
  const { publicUrl, projectsDomain, corsOrigins, openedServices: shared } = site;
  return { publicUrl, projectsDomain, corsOrigins, openedServices: { shared }, site };
}

function ofMachine(environment: Record<string, string | undefined>): Installation {
  const publicUrl = environment[PUBLIC_URL_SETTING];
  const example = 'it is like http://localhost:4000';
  if (!publicUrl) throw new Error(`${PUBLIC_URL_SETTING} is not set: ${example}`);
  if (!/^https?:\/\/[^/?#@]+\/?$/.test(publicUrl) || !URL.canParse(publicUrl)) {
    throw new Error(`${PUBLIC_URL_SETTING} is ${JSON.stringify(publicUrl)}: ${example}`);
  }
  return {
    publicUrl: publicUrl.replace(/\/$/, ''),
    projectsDomain: readProjectsDomain(environment[PROJECTS_DOMAIN_SETTING]),
    containerEngine: readContainerEngine(environment[CONTAINER_ENGINE_SETTING]),
    hasMachines: Boolean(environment[MACHINE_TOKEN_SETTING]),
    corsOrigins: readOrigins(environment[CORS_ORIGINS_SETTING]),
    openedServices: openedServices(environment[SHARED_SERVICES_SETTING]),
    site: undefined,
  };
}
