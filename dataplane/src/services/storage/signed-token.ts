/**
 * Tokens that open one object to their bearer. They are signed by a key derived from the project's JWT secret, so the
 * API rejects them as tokens, and storage rejects tokens of the API in their place. A token for a download is invalid
 * for an upload.
 */
import { hkdfSync } from 'node:crypto';
import { errors, type JWTPayload, jwtVerify, SignJWT } from 'jose';
import type { BackendTenant } from '../../projects/tenant.js';
import { invalidSignature, invalidToken } from './errors.js';

export interface SignedDownload {
  use: 'download';
  /** `bucket/name`. */
  url: string;
  /** Signed options of an image, which the URL can't change. */
  transformations?: string;
}

export interface SignedUpload {
  use: 'upload';
  url: string;
  owner?: string;
  upsert: boolean;
}

const ALGORITHM = 'HS256';
const MAX_TOKEN_LENGTH = 8 * 1024;

export const signed = (
  tenant: BackendTenant,
  claims: SignedDownload | SignedUpload,
  seconds: number,
): Promise<string> =>
  new SignJWT({ ...claims })
    .setProtectedHeader({ alg: ALGORITHM })
    .setIssuedAt()
    .setExpirationTime(Math.floor(Date.now() / 1000) + seconds)
    .sign(keyOf(tenant.ref, tenant.jwtSecret));

export async function verified<Use extends 'download' | 'upload'>(
  tenant: BackendTenant,
  token: string | null,
  use: Use,
  url: string,
): Promise<Use extends 'download' ? SignedDownload : SignedUpload> {
  if (!token || token.length > MAX_TOKEN_LENGTH) throw invalidToken('jwt must be provided');
  const payload = await payloadOf(tenant, token).catch((error: unknown) => {
    if (error instanceof errors.JWTExpired) throw invalidToken('"exp" claim timestamp check failed');
    if (error instanceof errors.JOSEError) throw invalidToken('signature verification failed');
    throw error;
  });
  if (payload.use !== use || payload.url !== url) throw invalidSignature();
  return payload as unknown as Use extends 'download' ? SignedDownload : SignedUpload;
}

/** Verifies with each secret, because signed URLs stay valid during a rotation, as the project's tokens do. */
async function payloadOf({ ref, jwtSecret, otherJwtSecrets }: BackendTenant, token: string): Promise<JWTPayload> {
  for (const secret of [jwtSecret, ...otherJwtSecrets]) {
    try {
      return (await jwtVerify(token, keyOf(ref, secret), { algorithms: [ALGORITHM] })).payload;
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    }
  }
  throw new errors.JWSSignatureVerificationFailed();
}

const keyOf = (ref: string, jwtSecret: string) =>
  new Uint8Array(hkdfSync('sha256', jwtSecret, ref, 'storage: signed addresses', 32));
