/**
 * What every program knows of the installation it is part of. In: the environment. Out: its public address, the services that it
 * opens, and where a project is: on a cluster from the site's settings, on one machine from variables. Read once, at start.
 */
import { readFileSync } from 'node:fs';
import { type OpenedServices, openedServices, SHARED_SERVICES_SETTING } from './availability.js';
import { projectUrlByHost, readSite, SITE_SETTING, type Site } from './site.js';

export const PUBLIC_URL_SETTING = 'SLIPWAY_PUBLIC_URL';

export interface Installation {
  /** What people type. Without a slash at the end. */
  publicUrl: string;
  /** What projects have beyond the availability matrix. */
  openedServices: OpenedServices;
  /** Undefined: one machine. */
  site: Site | undefined;
}

/** Throws an error that names the variable and what is wrong. */
export function readInstallation(environment: Record<string, string | undefined>): Installation {
  const file = environment[SITE_SETTING];
  return file ? ofSite(file, environment) : ofMachine(environment);
}

/** A project's address: where each has a host name, that; on one machine a path. */
export const projectUrlOf = ({ publicUrl, site }: Pick<Installation, 'publicUrl' | 'site'>, ref: string): string =>
  site ? projectUrlByHost(publicUrl, ref) : `${publicUrl}/p/${ref}`;

function ofSite(file: string, environment: Record<string, string | undefined>): Installation {
  for (const [setting, field] of [
    [PUBLIC_URL_SETTING, 'publicUrl'],
    [SHARED_SERVICES_SETTING, 'openedServices'],
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
  return { publicUrl: site.publicUrl, openedServices: { shared: site.openedServices }, site };
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
    openedServices: openedServices(environment[SHARED_SERVICES_SETTING]),
    site: undefined,
  };
}
