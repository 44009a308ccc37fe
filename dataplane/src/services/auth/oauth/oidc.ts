/**
 * OpenID providers, which are discovered by their issuer. Their id_tokens must be fresh, signed by the issuer's keys,
 * and issued for the project's client id.
 */

import type { ProviderConfig } from '@slipway/installation/auth-settings.js';
import type { Outbound } from '@slipway/program/outbound.js';
import { createRemoteJWKSet, customFetch, type JWTPayload, jwtVerify } from 'jose';
import { AuthError } from '../errors.js';
import { boundedFetch, fetchJson, providerFailed } from './fetch.js';
import type { Person } from './person.js';

interface Discovery {
  issuer: string;
  authorizationEndpoint: string;
  tokenEndpoint: string;
  userinfoEndpoint: string | undefined;
  keys: ReturnType<typeof createRemoteJWKSet>;
}

const KEPT_MS = 10 * 60_000;
const MAX_KEPT = 500;
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'EdDSA'];
const discoveries = new Map<string, { until: number; document: Promise<Discovery> }>();

export function discover(outbound: Outbound, { url }: ProviderConfig): Promise<Discovery> {
  const known = discoveries.get(url);
  if (known && known.until > performance.now()) return known.document;
  if (discoveries.size >= MAX_KEPT) discoveries.clear();
  const document = readDiscovery(outbound, url);
  discoveries.set(url, { until: performance.now() + KEPT_MS, document });
  document.catch(() => discoveries.delete(url));
  return document;
}

async function readDiscovery(outbound: Outbound, issuer: string): Promise<Discovery> {
  const document = (await fetchJson(outbound, `${issuer}/.well-known/openid-configuration`)) as Record<string, unknown>;
  // A document for another issuer could use that issuer's tokens for this one's users.
  if (String(document.issuer).replace(/\/$/, '') !== issuer) throw providerFailed();
  const address = (name: string) => {
    const value = document[name];
    if (typeof value !== 'string' || !URL.canParse(value)) throw providerFailed();
    const { protocol } = new URL(value);
    if (protocol !== 'https:' && !(protocol === 'http:' && issuer.startsWith('http:'))) throw providerFailed();
    return value;
  };
  return {
    issuer: String(document.issuer),
    authorizationEndpoint: address('authorization_endpoint'),
    tokenEndpoint: address('token_endpoint'),
    userinfoEndpoint: document.userinfo_endpoint === undefined ? undefined : address('userinfo_endpoint'),
    keys: createRemoteJWKSet(new URL(address('jwks_uri')), {
      timeoutDuration: 10_000,
      [customFetch]: boundedFetch(outbound),
    }),
  };
}

export async function verifyIdToken(outbound: Outbound, provider: ProviderConfig, token: string): Promise<JWTPayload> {
  const { issuer, keys } = await discover(outbound, provider);
  try {
    const { payload } = await jwtVerify(token, keys, {
      issuer,
      audience: provider.clientIds,
      algorithms: ALGORITHMS,
      clockTolerance: 30,
      requiredClaims: ['sub', 'exp', 'iat'],
    });
    return payload;
  } catch (cause) {
    throw new AuthError(400, 'bad_jwt', 'Bad ID token', { cause });
  }
}

const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);

export function personOfClaims(provider: ProviderConfig, claims: Record<string, unknown>): Person {
  const email = text(claims.email)?.toLowerCase();
  const emailVerified = claims.email_verified === true || claims.email_verified === 'true';
  const name = text(claims.name);
  const data = {
    iss: claims.iss ?? provider.url,
    sub: String(claims.sub),
    provider_id: String(claims.sub),
    email,
    email_verified: emailVerified,
    phone_verified: false,
    name,
    full_name: name,
    avatar_url: text(claims.picture),
    picture: text(claims.picture),
    preferred_username: text(claims.preferred_username),
    nickname: text(claims.nickname),
  };
  return { id: String(claims.sub), email, emailVerified, data: withoutUndefined(data) };
}

export const withoutUndefined = (values: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
