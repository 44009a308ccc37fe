/**
 * Verifies the signatures with which git hosts sign a delivery: each is an HMAC-SHA256 of the raw body. In: the
 * webhook_secret of a project, the body, and the headers of the request. GitHub, Gitea and Forgejo use the secret
 * itself as the key; GitLab signs as Standard Webhooks specify, with a key derived from the secret.
 */
import { createHash, createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isSameSecret, runInTurns, type Steps } from '@slipway/program';

/** The headers with a signature of the body in hexadecimal digits, and the prefix before the digits. */
const HEXADECIMAL = { 'x-hub-signature-256': 'sha256=', 'x-gitea-signature': '', 'x-forgejo-signature': '' };
const STANDARD = { id: 'webhook-id', time: 'webhook-timestamp', signature: 'webhook-signature' };

export const SIGNATURE_HEADERS = [...Object.keys(HEXADECIMAL), STANDARD.signature];

/**
 * Maximum difference in seconds between the time of a Standard Webhook and now. An older or newer one is rejected as a
 * replay.
 */
export const MOST_SECONDS_APART = 300;
/** Maximum number of signatures of one Standard Webhook: senders add a second signature while they change the key. */
const MOST_SIGNATURES = 10;
/**
 * Bytes of a body that are hashed in one turn. This takes one millisecond, or three if the processor has no instruction
 * for SHA-256.
 */
const STEP_BYTES = 1024 * 1024;

export interface SignedRequest {
  body: Buffer;
  headers: IncomingHttpHeaders;
}

/** True if one of the signatures is right. `now`: seconds since 1970. */
export async function isSigned(secret: string, request: SignedRequest, now = Date.now() / 1000): Promise<boolean> {
  return (await isSignedByHost(secret, request)) || (await isSignedAsStandard(secret, request, now));
}

async function isSignedByHost(secret: string, { body, headers }: SignedRequest): Promise<boolean> {
  const given = Object.entries(HEXADECIMAL).filter(([name]) => typeof headers[name] === 'string');
  if (given.length === 0) return false;
  const digits = (await runInTurns(hmacSteps(secret, '', body))).toString('hex');
  return given.some(([name, before]) => isSameSecret(headers[name] as string, before + digits));
}

/** Derives the key of Standard Webhooks: the signing token to set at GitLab is `whsec_` and its base64. */
const standardKeyOf = (secret: string) => createHash('sha256').update(secret).digest();

async function isSignedAsStandard(secret: string, { body, headers }: SignedRequest, now: number): Promise<boolean> {
  const { [STANDARD.id]: id, [STANDARD.time]: time, [STANDARD.signature]: signatures } = headers;
  if (typeof id !== 'string' || typeof time !== 'string' || typeof signatures !== 'string') return false;
  // The dot separates these parts, so none of them may contain one.
  if (!/^[\w-]{1,128}$/.test(id) || !/^\d{1,12}$/.test(time)) return false;
  if (Math.abs(now - Number(time)) > MOST_SECONDS_APART) return false;
  const hmac = await runInTurns(hmacSteps(standardKeyOf(secret), `${id}.${time}.`, body));
  const own = `v1,${hmac.toString('base64')}`;
  return signatures.split(' ', MOST_SIGNATURES).some((given) => isSameSecret(given, own));
}

function* hmacSteps(key: string | Buffer, before: string, body: Buffer): Steps<Buffer> {
  const hmac = createHmac('sha256', key).update(before);
  for (let at = 0; at < body.length; at += STEP_BYTES) {
    hmac.update(body.subarray(at, at + STEP_BYTES));
    yield;
  }
  return hmac.digest();
}
