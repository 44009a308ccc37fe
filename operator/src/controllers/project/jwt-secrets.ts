/**
 * Which JWT secrets a project has, and what their Secret is to hold: pure. A new one is `next` until all that verify
 * tokens have it, then it signs, and the one before is `previous`, whose tokens stay good until the next rotation.
 */
import { randomBytes } from 'node:crypto';
import { type ApiRole, type Project, SECRETS } from '@slipway/crds';
import { issueApiKey, keepApiKey } from './api-keys.js';
import { isAsked, recorded } from './rotation.js';
import type { Values } from './secrets.js';

const { keys: names } = SECRETS;
const newSecret = (bytes = 32) => randomBytes(bytes).toString('base64url');

export interface KeyWishes {
  ref: string;
  /** The owner's own JWT secret. */
  own: string | undefined;
  rotation: NonNullable<Project['spec']['rotation']>;
  now: Date;
}

/** Returns the content that the Secret needs, given its current content. */
export function wantedKeys(held: Values, wishes: KeyWishes): Values {
  const current = held[names.jwtSecret] || (wishes.own ?? newSecret());
  return {
    [names.jwtSecret]: current,
    ...nextSecret(held, current, wishes),
    ...apiKeys(held, current, wishes),
    [names.webhookSecret]: held[names.webhookSecret] || newSecret(),
  };
}

/**
 * Once all take tokens of `next`: it signs from now on, and is of the number that it was made for, whatever is asked
 * for since. What is held has another next by now: nothing.
 */
export function promotedKeys(held: Values, next: string, { ref, rotation, now }: KeyWishes): Values {
  if (held[names.nextJwtSecret] !== next) return {};
  const key = (role: ApiRole) => keepApiKey(undefined, ref, role, next, now);
  return {
    [names.jwtSecret]: next,
    [names.nextJwtSecret]: undefined,
    [names.previousJwtSecret]: held[names.jwtSecret],
    [names.nextJwtSecretRotation]: undefined,
    [names.jwtSecretRotation]:
      held[names.nextJwtSecretRotation] ?? recorded(rotation.jwtSecret, held[names.jwtSecretRotation]),
    [names.anonKey]: key('anon'),
    [names.serviceRoleKey]: key('service_role'),
  };
}

function nextSecret(held: Values, current: string, { own, rotation }: KeyWishes): Values {
  const record = held[names.jwtSecretRotation];
  const numbered = {
    [names.jwtSecretRotation]: recorded(rotation.jwtSecret, record),
    [names.nextJwtSecretRotation]: undefined,
  };
  // An owner's own secret is another when the owner says so, not by a number.
  if (own !== undefined) return { ...numbered, [names.nextJwtSecret]: own === current ? undefined : own };
  const isNew = !held[names.jwtSecret];
  if (isNew || !isAsked(rotation.jwtSecret, record)) return { ...numbered, [names.nextJwtSecret]: undefined };
  // A number that is asked for meanwhile may be for what leaked meanwhile: its rotation comes after this one.
  if (held[names.nextJwtSecret] && held[names.nextJwtSecretRotation]) return {};
  return { [names.nextJwtSecret]: newSecret(), [names.nextJwtSecretRotation]: String(rotation.jwtSecret) };
}

function apiKeys(held: Values, secret: string, { ref, rotation, now }: KeyWishes): Values {
  const record = held[names.apiKeysRotation];
  const isAnew = held[names.anonKey] !== undefined && isAsked(rotation.apiKeys, record);
  const key = (role: ApiRole, before: string | undefined) =>
    isAnew ? issueApiKey(ref, role, secret, now, newSecret(12)) : keepApiKey(before, ref, role, secret, now);
  return {
    [names.anonKey]: key('anon', held[names.anonKey]),
    [names.serviceRoleKey]: key('service_role', held[names.serviceRoleKey]),
    [names.apiKeysRotation]: recorded(rotation.apiKeys, record),
  };
}
