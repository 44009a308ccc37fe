/**
 * Issues and verifies user tokens. Issuer, audience and algorithm are fixed, so that tokens of projects are rejected.
 */
import { Inject, Injectable } from '@nestjs/common';
import { jwtVerify, SignJWT } from 'jose';
import { MAX_ID } from '../http/schema.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';

const ISSUER = 'slipway';
const AUDIENCE = 'slipway-management';
const ALGORITHM = 'HS256';

@Injectable()
export class UserTokens {
  private readonly key: Uint8Array;

  constructor(@Inject(SETTINGS) settings: ApiSettings) {
    this.key = new TextEncoder().encode(settings.jwtSecret);
  }

  /** Returns the token of a session, which expires with it. */
  async issue(
    userId: number,
    session: { id: number; expiresAt: Date },
  ): Promise<{ token: string; expires_at: string }> {
    const token = await new SignJWT({ sid: session.id })
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
      .setSubject(String(userId))
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setIssuedAt()
      .setExpirationTime(Math.floor(session.expiresAt.getTime() / 1000))
      .sign(this.key);
    return { token, expires_at: session.expiresAt.toISOString() };
  }

  /**
   * Returns the ids of the user and the session; undefined for a token that is invalid, expired or not ours. A token of
   * an earlier release names no session.
   */
  async read(token: string): Promise<{ userId: number; sessionId: number | undefined } | undefined> {
    const pinned = { algorithms: [ALGORITHM], issuer: ISSUER, audience: AUDIENCE, requiredClaims: ['sub', 'exp'] };
    try {
      const { payload } = await jwtVerify(token, this.key, pinned);
      const userId = idOf(Number(payload.sub));
      const sessionId = payload.sid === undefined ? undefined : idOf(payload.sid);
      const isWhole = userId !== undefined && (payload.sid === undefined || sessionId !== undefined);
      return isWhole ? { userId, sessionId } : undefined;
    } catch {
      return undefined;
    }
  }
}

const idOf = (value: unknown) =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= MAX_ID ? value : undefined;
