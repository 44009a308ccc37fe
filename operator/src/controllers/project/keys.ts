/** The project's keys: a JWT secret (ours or the owner's), what is signed with it, and the secret of its webhook. */
import { JWT_SECRET_MIN_LENGTH, namespaceOf, SECRETS } from '@slipway/crds';
import { type Context, ready, type StepOutcome, type StepWithParts } from './context.js';
import { type KeyWishes, wantedKeys } from './jwt-secrets.js';
import { plainText } from './resources.js';
import { CREDENTIALS_CURRENT, tellRotated } from './rotation.js';
import { copySecrets, restoreSecrets } from './secret-copies.js';
import { type EnsuredSecret, ensureSecret, readSecret, type Values } from './secrets.js';

const LOOK_AGAIN_MS = 2_000;
const { keys: names } = SECRETS;

export async function ensureKeys(context: Context): Promise<StepOutcome | StepWithParts> {
  const restored = (await restoreSecrets(context)).map((name) => `Secret ${name}, which was deleted`);
  const own = await ownJwtSecret(context);
  if (typeof own === 'object') return own;
  const wishes = keyWishes(context, own);
  const ensured = await ensureSecret(context, names.name, (held) => wantedKeys(held, wishes));
  const { values, before } = ensured;
  await copySecrets(context);
  context.found.anonKey = values[names.anonKey] as string;
  if (before && isRotated(plainText(before), values))
    tellRotated(context, 'the API keys are new; those before stay good');
  const outcome = { ...ready, restored: [...restored, ...driftOf(ensured)] };
  const next = values[names.nextJwtSecret];
  if (next === undefined) return outcome;
  context.found.nextJwtSecret = next;
  const message = 'the next JWT secret is being made known to all that verify tokens';
  const spreading: StepOutcome = { state: 'progressing', reason: 'Rotating', message, lookAgainMs: LOOK_AGAIN_MS };
  return { outcome, parts: [{ condition: CREDENTIALS_CURRENT, outcome: spreading, advisory: true }] };
}

export const keyWishes = ({ ref, project, deps }: Context, own: string | undefined): KeyWishes => ({
  ref,
  own,
  rotation: project.spec.rotation ?? {},
  now: deps.now(),
});

const isRotated = (before: Values, values: Values) => before[names.apiKeysRotation] !== values[names.apiKeysRotation];

function driftOf({ values, before }: EnsuredSecret): string[] {
  if (!before) return [`Secret ${names.name}, which was deleted`];
  const held: Values = plainText(before);
  const kept = [names.jwtSecret, names.anonKey, names.serviceRoleKey, names.webhookSecret];
  if (isRotated(held, values) || kept.every((key) => held[key] === values[key])) return [];
  return [`Secret ${names.name}, which was edited`];
}

/** The owner's own JWT secret, undefined where none is asked for, or why it can't be had. */
async function ownJwtSecret(context: Context): Promise<string | undefined | StepOutcome> {
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
    const message = `${place} has no key ${key}: put the JWT secret there, or name another key in spec.jwtSecretRef.key`;
    return { state: 'failed', reason: 'JwtSecretMissing', message, retry: true };
  }
  if (value.length < JWT_SECRET_MIN_LENGTH) {
    const message = `the JWT secret in ${place} is too short: it must have at least ${JWT_SECRET_MIN_LENGTH} characters`;
    return { state: 'failed', reason: 'JwtSecretTooShort', message, retry: true };
  }
  return value;
}
