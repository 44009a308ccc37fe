/**
 * Providers of a project, from GOTRUE_EXTERNAL_<NAME>_*. `github` is GitHub's own protocol; `google` and every other
 * name is an OpenID provider, identified by its issuer (_URL).
 */
import type { ConfigReader } from './config-reader.js';
import { boolean, secret as hidden, line, list, url } from './values.js';

export interface ProviderConfig {
  name: string;
  kind: 'github' | 'oidc';
  /** Client ids. The first one is sent to the provider; id_tokens for any of them are accepted. */
  clientIds: [string, ...string[]];
  secret: string;
  /** GitHub's base URL, or the issuer. */
  url: string;
  /** Redirect URL for the provider; undefined: this project's /callback. */
  redirectUri: string | undefined;
  emailOptional: boolean;
  skipNonceCheck: boolean;
}

const BUILT_IN: Readonly<Record<string, string>> = {
  github: 'https://github.com',
  google: 'https://accounts.google.com',
};

/** Providers that upstream has, by upstream's names. A project can configure others too. */
export const UPSTREAM_PROVIDERS = [
  ...['apple', 'azure', 'bitbucket', 'discord', 'facebook', 'figma', 'fly', 'github', 'gitlab'],
  ...['google', 'kakao', 'keycloak', 'linkedin', 'linkedin_oidc', 'notion', 'slack', 'slack_oidc'],
  ...['snapchat', 'spotify', 'twitch', 'twitter', 'workos', 'zoom'],
];

/** Names with the same prefix that are not providers. */
const NOT_PROVIDERS = new Set(['email', 'phone', 'anonymous_users']);
const NAME = /^[a-z][a-z0-9_]{0,49}$/;

/** The settings of one provider, after its name. */
const SUFFIXES = [
  ...['_ENABLED', '_CLIENT_ID', '_SECRET', '_URL'],
  ...['_REDIRECT_URI', '_EMAIL_OPTIONAL', '_SKIP_NONCE_CHECK'],
];

export function providers(reader: ConfigReader): ReadonlyMap<string, ProviderConfig> {
  const names = reader
    .namesBetween('EXTERNAL_', SUFFIXES)
    .filter((name) => NAME.test(name) && !NOT_PROVIDERS.has(name));
  const providers = names.map((name) => provider(reader, name)).filter((each) => each !== undefined);
  return new Map(providers.map((each) => [each.name, each]));
}

function provider(reader: ConfigReader, name: string): ProviderConfig | undefined {
  const key = `EXTERNAL_${name.toUpperCase()}`;
  const enabled = reader.read(`${key}_ENABLED`, false, boolean);
  const clientIds = reader.read(`${key}_CLIENT_ID`, [] as string[], list);
  const secret = reader.read(`${key}_SECRET`, '', hidden(line));
  const address = reader.read(`${key}_URL`, BUILT_IN[name], httpUrl);
  const settings = {
    redirectUri: reader.optional(`${key}_REDIRECT_URI`, url),
    emailOptional: reader.read(`${key}_EMAIL_OPTIONAL`, false, boolean),
    skipNonceCheck: reader.read(`${key}_SKIP_NONCE_CHECK`, false, boolean),
  };
  if (!enabled) return undefined;
  const [first, ...others] = clientIds;
  const missing =
    first === undefined
      ? ['CLIENT_ID', 'the provider is enabled but has no client id']
      : address === undefined
        ? ['URL', 'the provider is enabled but its issuer is not known']
        : undefined;
  if (missing !== undefined) {
    reader.refuse(`${key}_${missing[0]}`, missing[1] as string);
    return undefined;
  }
  return {
    name,
    kind: name === 'github' ? 'github' : 'oidc',
    clientIds: [first as string, ...others],
    secret,
    url: (address as string).replace(/\/$/, ''),
    ...settings,
  };
}

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

function httpUrl(text: string): string {
  const address = new URL(url(text));
  const plainAllowed = address.protocol === 'http:' && LOOPBACK.has(address.hostname);
  if (address.protocol !== 'https:' && !plainAllowed) {
    throw new Error('it must be an https:// URL (http:// only to this machine)');
  }
  return text.trim();
}
