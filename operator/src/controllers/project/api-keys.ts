/** A project's anon and service_role keys: HS256 tokens, as every Supabase client sends them. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { ApiRole } from '@slipway/crds';

const TEN_YEARS_S = 10 * 365 * 24 * 3600;

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const sign = (text: string, secret: string) => createHmac('sha256', secret).update(text).digest('base64url');

export function issueApiKey(ref: string, role: ApiRole, secret: string, now: Date): string {
  const iat = Math.floor(now.getTime() / 1000);
  const claims = { iss: 'slipway', ref, role, iat, exp: iat + TEN_YEARS_S };
  const text = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`;
  return `${text}.${sign(text, secret)}`;
}

/** `key` if it is of `secret`, else a new one: so keys stay as long as their secret does. */
export function keepApiKey(key: string | undefined, ref: string, role: ApiRole, secret: string, now: Date): string {
  const end = key?.lastIndexOf('.') ?? -1;
  if (key && end > 0) {
    const [expected, actual] = [Buffer.from(sign(key.slice(0, end), secret)), Buffer.from(key.slice(end + 1))];
    if (expected.length === actual.length && timingSafeEqual(expected, actual)) return key;
  }
  return issueApiKey(ref, role, secret, now);
}
