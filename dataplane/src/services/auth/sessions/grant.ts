/** Response to a sign-in: access token, refresh token, user. */
import { createHmac, sign } from 'node:crypto';
import { signingKeysOf } from '../../../identity/signing-keys.js';
import type { BackendTenant } from '../../../projects/tenant.js';
import type { Context } from '../context.js';
import { customClaims } from '../hooks/custom-access-token.js';
import { presentable, type User } from '../users/user.js';
import type { SignedIn } from './session.js';

export interface Grant {
  access_token: string;
  token_type: 'bearer';
  expires_in: number;
  expires_at: number;
  refresh_token: string;
  user: User;
  provider_token?: string;
  provider_refresh_token?: string;
}

/** `method` is the authentication method, for the hook. */
export async function grant(
  context: Context,
  { user, session }: SignedIn,
  refreshToken: string,
  method: string,
): Promise<Grant> {
  const { config, request } = context;
  const now = Math.floor(Date.now() / 1000);
  const seconds = config.accessTokenSeconds;
  const claims = claimsOf(request.tenant, { user, session }, { now, expires: now + seconds });
  const final = config.hooks.custom_access_token ? await customClaims(context, claims, method) : claims;
  return {
    access_token: signed(request.tenant, final),
    token_type: 'bearer',
    expires_in: seconds,
    expires_at: now + seconds,
    refresh_token: refreshToken,
    user: presentable(user),
  };
}

/** Seconds since 1970. */
const claimsOf = (
  tenant: BackendTenant,
  { user, session }: SignedIn,
  { now, expires }: { now: number; expires: number },
) => ({
  iss: issuerOf(tenant),
  sub: user.id,
  aud: user.aud,
  exp: expires,
  iat: now,
  email: user.email,
  phone: user.phone,
  app_metadata: user.app_metadata,
  user_metadata: user.user_metadata,
  role: user.role,
  aal: session.aal ?? 'aal1',
  amr: session.amr,
  session_id: session.id,
  is_anonymous: user.is_anonymous,
});

export type AccessClaims = ReturnType<typeof claimsOf>;

export const issuerOf = ({ serviceUrl, url }: BackendTenant) => serviceUrl ?? `${url}/auth/v1`;

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const HS256_HEADER = encode({ alg: 'HS256', typ: 'JWT' });

function signed(tenant: BackendTenant, claims: object): string {
  const { signing } = signingKeysOf(tenant);
  if (signing === undefined) {
    const content = `${HS256_HEADER}.${encode(claims)}`;
    return `${content}.${createHmac('sha256', tenant.jwtSecret).update(content).digest('base64url')}`;
  }
  const content = `${encode({ alg: signing.algorithm, kid: signing.id, typ: 'JWT' })}.${encode(claims)}`;
  const signature = sign('sha256', Buffer.from(content), { key: signing.key, dsaEncoding: 'ieee-p1363' });
  return `${content}.${signature.toString('base64url')}`;
}
