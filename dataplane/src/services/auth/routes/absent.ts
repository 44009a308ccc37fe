/** Routes of upstream that are absent here. Each is rejected with an error that names the feature. */
import { AuthError, notFound } from '../errors.js';

const FEATURES: readonly [prefix: string, code: string, what: string][] = [
  ['/sso', 'saml_provider_disabled', 'SAML 2.0 is disabled'],
  ['/passkeys', 'feature_disabled', 'Passkeys are not available here'],
  ['/oauth', 'feature_disabled', 'The OAuth server is not available here'],
  ['/user/oauth', 'feature_disabled', 'The OAuth server is not available here'],
  ['/admin/oauth', 'feature_disabled', 'The OAuth server is not available here'],
  ['/admin/custom-providers', 'feature_disabled', 'Providers are set in the Secret auth-config here'],
  ['/admin/sso', 'saml_provider_disabled', 'SAML 2.0 is disabled'],
];
const PASSKEYS_OF_USER = /^\/admin\/users\/[^/]+\/passkeys(\/|$)/;

export function absentRoute(path: string): AuthError {
  const feature = FEATURES.find(([prefix]) => path === prefix || path.startsWith(`${prefix}/`));
  if (feature) return notFound(feature[1], feature[2]);
  if (PASSKEYS_OF_USER.test(path)) return notFound('feature_disabled', 'Passkeys are not available here');
  return notFound('not_found', 'There is no such route, or it is not available here');
}

export const web3Grant = () => new AuthError(422, 'web3_provider_disabled', 'Web3 sign-ins are not available here');
