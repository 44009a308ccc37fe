/**
 * Step of the project's keys: a JWT secret (generated, or the owner's), the API keys that it signs, and the secret of
 * the project's webhook.
 */
import { JWT_SECRET_MIN_LENGTH } from '@slipway/crds';
import { namespaceOf, SECRETS } from '@slipway/installation';
import type { EngineOutcome } from '../../../capabilities/index.js';
import type { Context, StepOutcome } from '../context.js';
import { type KeyRequest, wantedKeys } from '../jwt-secrets.js';
import { plainText } from '../resources.js';
import { CREDENTIALS_CURRENT, reportRotated } from '../rotation.js';
import { copySecrets, restoreSecrets } from '../secret-copies.js';
import { type EnsuredSecret, ensureSecret, readSecret, type Values } from '../secrets.js';
import type { StepResult } from '../stages.js';

const LOOK_AGAIN_MS = 2_000;
const { keys: names } = SECRETS;

export interface ProjectKeys {
  anonKey: string;
  serviceRoleKey: string;
  /** The next JWT secret during a rotation. */
  nextJwtSecret: string | undefined;
}

export async function ensureKeys(context: Context): Promise<StepResult<ProjectKeys>> {
  const restored = (await restoreSecrets(context)).map((name) => `Secret ${name}, which was deleted`);
  const own = await ownJwtSecret(context);
  if (typeof own === 'object') return own;
  const request = keyRequest(context, own);
  const ensured = await ensureSecret(context, names.name, (stored) => wantedKeys(stored, request));
  const { values, before } = ensured;
  await copySecrets(context);
  if (before && isRotated(plainText(before), values))
    reportRotated(context, 'the API keys are new; the former ones stay valid');
  const next = values[names.nextJwtSecret];
  const keys = {
    anonKey: values[names.anonKey] as string,
    serviceRoleKey: values[names.serviceRoleKey] as string,
    nextJwtSecret: next,
  };
  const outcome = { state: 'ready' as const, value: keys, restored: [...restored, ...driftOf(ensured)] };
  if (next === undefined) return outcome;
  const message = 'the next JWT secret is being distributed to all programs that verify tokens';
  const spreading: StepOutcome = { state: 'progressing', reason: 'Rotating', message, lookAgainMs: LOOK_AGAIN_MS };
  return { outcome, parts: [{ condition: CREDENTIALS_CURRENT, outcome: spreading, advisory: true }] };
}

export const keyRequest = ({ ref, project, deps }: Context, own: string | undefined): KeyRequest => ({
  ref,
  own,
  rotation: project.spec.rotation ?? {},
  now: deps.now(),
});

const isRotated = (before: Values, values: Values) => before[names.apiKeysRotation] !== values[names.apiKeysRotation];

function driftOf({ values, before }: EnsuredSecret): string[] {
  if (!before) return [`Secret ${names.name}, which was deleted`];
  const stored: Values = plainText(before);
  const kept = [names.jwtSecret, names.anonKey, names.serviceRoleKey, names.webhookSecret];
  if (isRotated(stored, values) || kept.every((key) => stored[key] === values[key])) return [];
  return [`Secret ${names.name}, which was edited`];
}

/**
 * Returns the owner's own JWT secret. Undefined if the spec names none. Returns an outcome if the secret can't be read.
 */
async function ownJwtSecret(context: Context): Promise<string | undefined | EngineOutcome<never>> {
  const wanted = context.project.spec.jwtSecretRef;
  if (!wanted) return undefined;
  const key = wanted.key ?? SECRETS.jwt.secret;
  const place = `the Secret ${wanted.name} in namespace ${namespaceOf(context.ref)}`;
  const secret = await readSecret(context, wanted.name);
  if (!secret) {
    return { state: 'progressing', message: `waiting for ${place} (spec.jwtSecretRef)`, lookAgainMs: LOOK_AGAIN_MS };
  }
  const value = plainText(secret)[key];
  if (value === undefined) {
    const fix = 'put the JWT secret there, or name another key in spec.jwtSecretRef.key';
    const message = `${place} has no key ${key}: ${fix}`;
    return { state: 'failed', reason: 'JwtSecretMissing', message, retry: true };
  }
  if (value.length < JWT_SECRET_MIN_LENGTH) {
    const least = `at least ${JWT_SECRET_MIN_LENGTH} characters`;
    const message = `the JWT secret in ${place} is too short: it must have ${least}`;
    return { state: 'failed', reason: 'JwtSecretTooShort', message, retry: true };
  }
  return value;
}
