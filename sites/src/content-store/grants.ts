/**
 * Tokens for the publication of one build. A token consists of the grant (what it allows) and a signature, whose key is
 * the store's own token. In: a grant, or the token of a request. Out: a token, or its grant. The store keeps no list of
 * tokens, and rejects expired ones.
 */
import { createHmac } from 'node:crypto';
import { isSameSecret, type JsonBound, parseJson } from '@slipway/program';
import type { DeploymentLimits } from '../output.js';

export interface PublishGrant {
  /** The site that the output belongs to: the ref of a project, or the name of one of its previews. */
  ref: string;
  build: string;
  limits: DeploymentLimits;
  /** In milliseconds since 1970. */
  expiresAt: number;
}

const LARGEST = 4096;
const BOUND: JsonBound = { bytes: LARGEST, depth: 3, values: 30 };

export function signGrant(grant: PublishGrant, secret: string): string {
  const payload = Buffer.from(JSON.stringify(grant)).toString('base64url');
  return `${payload}.${signatureOf(payload, secret)}`;
}

/** Returns undefined if the token has expired or the store did not sign it. */
export function readGrant(token: string, secret: string, now: number): PublishGrant | undefined {
  const [payload = '', signature = ''] = token.split('.');
  if (token.length > LARGEST || !isSameSecret(signature, signatureOf(payload, secret))) return undefined;
  const grant = parseJson(Buffer.from(payload, 'base64url'), BOUND) as PublishGrant;
  return grant.expiresAt > now ? grant : undefined;
}

/** The prefix separates these signatures from other signatures under the same secret. */
const signatureOf = (payload: string, secret: string) =>
  createHmac('sha256', secret).update(`publish\0${payload}`).digest('base64url');
