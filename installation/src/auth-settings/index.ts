/**
 * The settings of a project's auth, which its owner writes to the Secret `auth-config`: their names, types, limits and
 * defaults. The data plane obeys them, and the management API validates them. In: the texts of the Secret. Out: the
 * settings, and the invalid ones.
 */
export {
  type AuthConfig,
  authConfigDigest,
  canMail,
  canText,
  confirmsEmail,
  readAuthConfig,
  readAuthSettings,
} from './auth-settings.js';
export type { ConfigProblem, Setting } from './config-reader.js';
export type { HookName, HookTarget } from './hooks.js';
export type { MailName } from './mail-texts.js';
export { type OutgoingHost, outgoingHosts } from './outgoing-hosts.js';
export { type ProviderConfig, UPSTREAM_PROVIDERS } from './providers.js';
export { JWT_KEYS, parseSigningKeys, type SigningKeys } from './signing-keys.js';
export { duration } from './values.js';
