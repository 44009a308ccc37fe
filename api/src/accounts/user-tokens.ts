/** The JWT that logging in gives. Issuer, audience and algorithm are pinned, so no project's token passes for one. */
import { Inject, Injectable } from '@nestjs/common';
import { jwtVerify, SignJWT } from 'jose';
import { SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';

const USER_TOKEN_HOURS = 24;
const ISSUER = 'slipway';
const AUDIENCE = 'slipway-management';
const ALGORITHM = 'HS256';

@Injectable()
export class UserTokens {
  private readonly key: Uint8Array;

  constructor(@Inject(SETTINGS) settings: ApiSettings) {
    this.key = new TextEncoder().encode(settings.jwtSecret);
  }

  async issue(userId: number): Promise<{ token: string; expires_at: string }> {
    const expires = Math.floor(Date.now() / 1000) + USER_TOKEN_HOURS * 3600;
    const token = await new SignJWT()
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
      .setSubject(String(userId))
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setIssuedAt()
      .setExpirationTime(expires)
      .sign(this.key);
    return { token, expires_at: new Date(expires * 1000).toISOString() };
  }

  /** The user's id; undefined for any token that is not one of ours, whole and in time. */
  async userIdOf(token: string): Promise<number | undefined> {
    const pinned = { algorithms: [ALGORITHM], issuer: ISSUER, audience: AUDIENCE, requiredClaims: ['sub', 'exp'] };
    try {
      const { payload } = await jwtVerify(token, this.key, pinned);
      const userId = Number(payload.sub);
      return Number.isSafeInteger(userId) ? userId : undefined;
    } catch {
      return undefined;
    }
  }
}
