/**
 * Lists the hosts that auth connects to because of a project's settings: HTTP hooks, providers and the mail server.
 * Pure. In: the texts of the Secret `auth-config`. Out: host and port of each setting. Nothing else of a URL, because
 * its user, path and query may be secrets.
 */
import { isIP } from 'node:net';
import { type Destination, hostOf } from '@slipway/program';
import { readAuthConfig } from './auth-settings.js';

export interface OutgoingHost extends Destination {
  /** Name of the setting: `GOTRUE_SMTP_HOST`. */
  setting: string;
}

/** Characters of a host name that can be resolved and printed, and the maximum length of one. */
const HOST_NAME = /^[\p{L}\p{N}._-]{1,253}$/u;

/** Invalid settings are left out, and so are hooks and providers that are not enabled. */
export function outgoingHosts(values: Readonly<Record<string, string>>): OutgoingHost[] {
  const { hooks, providers, mail } = readAuthConfig(values).config;
  const ofHooks = Object.entries(hooks).flatMap(([name, target]) =>
    target?.kind === 'http' ? placeOf(`GOTRUE_HOOK_${name.toUpperCase()}_URI`, target.url) : [],
  );
  const ofProviders = [...providers.values()].flatMap(({ name, url }) => {
    const setting = `GOTRUE_EXTERNAL_${name.toUpperCase()}_URL`;
    // Without the setting, the provider has its well-known public URL.
    return values[setting]?.trim() ? placeOf(setting, url) : [];
  });
  // A send_email hook sends the mails instead of the mail server.
  const usesMailServer = mail.host !== undefined && hooks.send_email === undefined;
  const ofMail = usesMailServer
    ? [{ setting: 'GOTRUE_SMTP_HOST', host: hostOf(mail.host as string), port: mail.port }]
    : [];
  return [...ofMail, ...ofHooks, ...ofProviders].filter(({ host }) => isIP(host) !== 0 || HOST_NAME.test(host));
}

function placeOf(setting: string, url: string): OutgoingHost {
  const { hostname, port, protocol } = new URL(url);
  return { setting, host: hostOf(hostname), port: Number(port) || (protocol === 'https:' ? 443 : 80) };
}
