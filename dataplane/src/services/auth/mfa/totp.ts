/** Time-based codes of RFC 6238 with the parameters of authenticator apps: six digits, thirty seconds, SHA-1. */
import { Secret, TOTP } from 'otpauth';
import QRCode from 'qrcode';

const SECRET_BYTES = 20;
const STEP_SECONDS = 30;

export interface NewSecret {
  secret: string;
  uri: string;
}

export function newSecret(issuer: string, account: string): NewSecret {
  const totp = totpOf(new Secret({ size: SECRET_BYTES }), issuer, account);
  return { secret: totp.secret.base32, uri: totp.toString() };
}

export const qrCode = (uri: string): Promise<string> =>
  QRCode.toString(uri, { type: 'svg', errorCorrectionLevel: 'M' });

/**
 * Returns the time step of a valid code, which the caller records so that the code works once. Allows one step of clock
 * difference.
 */
export function stepOf(secret: string, code: string, now = Date.now()): number | undefined {
  if (!/^\d{6}$/.test(code)) return undefined;
  const totp = totpOf(Secret.fromBase32(secret), '', '');
  const delta = totp.validate({ token: code, timestamp: now, window: 1 });
  return delta === null ? undefined : Math.floor(now / 1000 / STEP_SECONDS) + delta;
}

const totpOf = (secret: Secret, issuer: string, label: string) =>
  new TOTP({ secret, issuer, label, algorithm: 'SHA1', digits: 6, period: STEP_SECONDS });
