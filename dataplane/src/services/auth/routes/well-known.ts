/** Routes for verifiers of tokens: the public keys, and their URL. */
import { signingKeysOf } from '../../../identity/signing-keys.js';
import type { Answer, Context } from '../context.js';
import { issuerOf } from '../sessions/grant.js';

const CACHED = { 'Cache-Control': 'public, max-age=600' };

export async function jwks({ request }: Context): Promise<Answer> {
  return { status: 200, body: { keys: signingKeysOf(request.tenant).published }, headers: CACHED };
}

export async function openidConfiguration({ request }: Context): Promise<Answer> {
  const issuer = issuerOf(request.tenant);
  const { signing } = signingKeysOf(request.tenant);
  const body = {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    userinfo_endpoint: `${issuer}/user`,
    jwks_uri: `${issuer}/.well-known/jwks.json`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [signing?.algorithm ?? 'HS256'],
    code_challenge_methods_supported: ['S256', 'plain'],
  };
  return { status: 200, body, headers: CACHED };
}
