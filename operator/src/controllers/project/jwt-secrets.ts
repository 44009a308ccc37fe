/**
 * The JWT secrets of a project, and the content of their Secret. Pure. A new secret is `next` until all programs that
 * verify tokens have it. Then it signs tokens, and the former secret becomes `previous`. Tokens signed by `previous`
 * stay valid until the next rotation.
 */
import { randomBytes } from 'node:crypto';
import { type Project } from '@slipway/crds';
import { type ApiRole, SECRETS } from '@slipway/installation';
import { issueApiKey, keepApiKey } from './api-keys.js';
import { isRequested, recorded } from './rotation.js';
import type { Values } from './secrets.js';
import { newWebhookSecret } from './steps/webhook-secret.js';

const { keys: names } = SECRETS;
const newSecret = (bytes = 32) => randomBytes(bytes).toString('base64url');

export interface KeyRequest {
  ref: string;
  /** The owner's own JWT secret. */
  own: string | undefined;
  rotation: NonNullable<Project['spec']['rotation']>;
  now: Date;
}

/** Returns the content that the Secret needs, given its current content. */
export function wantedKeys(stored: Values, request: KeyRequest): Values {
  const current = stored[names.jwtSecret] || (request.own ?? newSecret());
  return {
    [names.jwtSecret]: current,
    ...nextSecret(stored, current, request),
    ...apiKeys(stored, current, request),
    [names.webhookSecret]: stored[names.webhookSecret] || newWebhookSecret(),
  };
}

/**
 * Called once all programs accept tokens of `next`. From now on that secret signs, and the number of its rotation is
 * recorded. Returns nothing if the Secret has another next secret by now.
 */
export function promotedKeys(stored: Values, next: string, { ref, rotation, now }: KeyRequest): Values {
  if (stored[names.nextJwtSecret] !== next) return {};
  const key = (role: ApiRole) => keepApiKey(undefined, ref, role, next, now);
  return {
    [names.jwtSecret]: next,
    [names.nextJwtSecret]: undefined,
    [names.previousJwtSecret]: stored[names.jwtSecret],
    [names.nextJwtSecretRotation]: undefined,
    [names.jwtSecretRotation]:
      stored[names.nextJwtSecretRotation] ?? recorded(rotation.jwtSecret, stored[names.jwtSecretRotation]),
    [names.anonKey]: key('anon'),
    [names.serviceRoleKey]: key('service_role'),
  };
}

function nextSecret(stored: Values, current: string, { own, rotation }: KeyRequest): Values {
  const record = stored[names.jwtSecretRotation];
  const numbered = {
    [names.jwtSecretRotation]: recorded(rotation.jwtSecret, record),
    [names.nextJwtSecretRotation]: undefined,
  };
  // An owner's own secret changes when the owner changes it, not by a number.
  if (own !== undefined) return { ...numbered, [names.nextJwtSecret]: own === current ? undefined : own };
  const isNew = !stored[names.jwtSecret];
  if (isNew || !isRequested(rotation.jwtSecret, record)) return { ...numbered, [names.nextJwtSecret]: undefined };
  // A number that is requested during a rotation may be for a leak during it, so another rotation follows this one.
  if (stored[names.nextJwtSecret] && stored[names.nextJwtSecretRotation]) return {};
  return { [names.nextJwtSecret]: newSecret(), [names.nextJwtSecretRotation]: String(rotation.jwtSecret) };
}

function apiKeys(stored: Values, secret: string, { ref, rotation, now }: KeyRequest): Values {
  const record = stored[names.apiKeysRotation];
  const isAnew = stored[names.anonKey] !== undefined && isRequested(rotation.apiKeys, record);
  const key = (role: ApiRole, before: string | undefined) =>
    isAnew ? issueApiKey(ref, role, secret, now, newSecret(12)) : keepApiKey(before, ref, role, secret, now);
  return {
    [names.anonKey]: key('anon', stored[names.anonKey]),
    [names.serviceRoleKey]: key('service_role', stored[names.serviceRoleKey]),
    [names.apiKeysRotation]: recorded(rotation.apiKeys, record),
  };
}
