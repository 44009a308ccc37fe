/**
 * Whom users may sign in with, from GOTRUE_EXTERNAL_<NAME>_*. `github` is GitHub's own protocol; `google` and every
 * other name is an OpenID provider, known by its issuer (_URL).
 */
import type { ConfigReader } from '../config.js';
import { boolean, list, string, url } from '../config-values.js';

export interface ProviderConfig {
  name: string;
  kind: 'github' | 'oidc';
  /** The first is ours where one is sent; id_tokens of all are taken. */
  clientIds: [string, ...string[]];
  secret: string;
  /** GitHub's address, or the issuer. */
  url: string;
  /** Where the provider sends users back to; undefined: this project's /callback. */
  redirectUri: string | undefined;
  emailOptional: boolean;
  skipNonceCheck: boolean;
}

const BUILT_IN: Readonly<Record<string, string>> = {
  github: 'https://github.com',
  google: 'https://accounts.google.com',
};

/** Upstream's, by the names that it has for them; here others can be set up too. */
export const UPSTREAM_PROVIDERS = [
  ...['apple', 'azure', 'bitbucket', 'discord', 'facebook', 'figma', 'fly', 'github', 'gitlab'],
  ...['google', 'kakao', 'keycloak', 'linkedin', 'linkedin_oidc', 'notion', 'slack', 'slack_oidc'],
  ...['snapchat', 'spotify', 'twitch', 'twitter', 'workos', 'zoom'],
];

/** Ways in that have the same prefix but are no provider. */
const NOT_PROVIDERS = new Set(['email', 'phone', 'anonymous_users']);
const NAME = /^[a-z][a-z0-9_]{0,49}$/;

export function providers(reader: ConfigReader): ReadonlyMap<string, ProviderConfig> {
  const names = reader.namesBetween('EXTERNAL_', '_ENABLED').filter((name) => !NOT_PROVIDERS.has(name));
  const found = names.map((name) => provider(reader, name)).filter((each) => each !== undefined);
  return new Map(found.map((each) => [each.name, each]));
}

function provider(reader: ConfigReader, name: string): ProviderConfig | undefined {
  const key = `EXTERNAL_${name.toUpperCase()}`;
  const enabled = reader.read(`${key}_ENABLED`, false, boolean);
  const clientIds = reader.read(`${key}_CLIENT_ID`, [] as string[], list);
  const secret = reader.read(`${key}_SECRET`, '', string);
  const address = reader.read(`${key}_URL`, BUILT_IN[name], httpUrl);
  const settings = {
    redirectUri: reader.optional(`${key}_REDIRECT_URI`, url),
    emailOptional: reader.read(`${key}_EMAIL_OPTIONAL`, false, boolean),
    skipNonceCheck: reader.read(`${key}_SKIP_NONCE_CHECK`, false, boolean),
  };
  if (!enabled) return undefined;
  const [first, ...others] = clientIds;
  const missing = !NAME.test(name)
    ? ['ENABLED', 'a provider is named by letters, digits and _']
    : first === undefined
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
