/** The anon and service_role keys of a project: HS256 tokens, in the form that every Supabase client sends. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { ApiRole } from '@slipway/installation';

const TEN_YEARS_S = 10 * 365 * 24 * 3600;
const PROBE_S = 300;

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const sign = (text: string, secret: string) => createHmac('sha256', secret).update(text).digest('base64url');

function issue(claims: object, secret: string, now: Date, seconds: number): string {
  const iat = Math.floor(now.getTime() / 1000);
  const text = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ ...claims, iat, exp: iat + seconds })}`;
  return `${text}.${sign(text, secret)}`;
}

/** Returns a new key. `id` makes it differ from another key of the same second. */
export function issueApiKey(ref: string, role: ApiRole, secret: string, now: Date, id?: string): string {
  return issue({ iss: 'slipway', ref, role, ...(id === undefined ? {} : { jti: id }) }, secret, now, TEN_YEARS_S);
}

/** Returns a short-lived key of `anon` that tests whether tokens of `secret` are accepted. It is shown to nobody. */
export const issueProbeKey = (ref: string, secret: string, now: Date) =>
  issue({ iss: 'slipway', ref, role: 'anon' }, secret, now, PROBE_S);

/** Returns `key` if `secret` signed it, else a new key. So keys stay as long as their secret. */
export function keepApiKey(key: string | undefined, ref: string, role: ApiRole, secret: string, now: Date): string {
  const end = key?.lastIndexOf('.') ?? -1;
  if (key && end > 0) {
    const [expected, actual] = [Buffer.from(sign(key.slice(0, end), secret)), Buffer.from(key.slice(end + 1))];
    if (expected.length === actual.length && timingSafeEqual(expected, actual)) return key;
  }
  return issueApiKey(ref, role, secret, now);
}
