/** Reads the settings of the egress proxy of builds from the environment, once. An error names the invalid variable. */
import { POD_URLS_SETTINGS, readInstallation, readPodUrls } from '@slipway/installation';
import { LISTEN_FORM, logLevelOf, settingOf } from '@slipway/program';

export interface EgressSettings {
  /** Address to listen at, `host:port`. */
  listen: string;
  /** URL of the API. */
  apiUrl: string;
  /** URLs of the pods that store sites. */
  hostingUrls: readonly string[];
  allowedNetworks: readonly string[];
  blockedNetworks: readonly string[];
  logLevel: string;
}

export function readEgressSettings(environment: Record<string, string | undefined>): EgressSettings {
  const { site } = readInstallation(environment);
  if (!site) throw new Error('SLIPWAY_SITE is not set: the egress proxy of builds is for clusters');
  return {
    listen: settingOf(environment, 'SLIPWAY_LISTEN', LISTEN_FORM),
    apiUrl: settingOf(environment, 'SLIPWAY_API_URL', { pattern: /^http:\/\/[^/]+$/, like: 'http://slipway-api' }),
    hostingUrls: readPodUrls(POD_URLS_SETTINGS.hosting, environment[POD_URLS_SETTINGS.hosting]),
    allowedNetworks: site.outbound.allowedNetworks,
    blockedNetworks: site.blockedAddresses,
    logLevel: logLevelOf(environment),
  };
}
