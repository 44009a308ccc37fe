/** The project's keys: a JWT secret (ours or the owner's), what is signed with it, and the secret of its webhook. */
import { randomBytes } from 'node:crypto';
import { JWT_SECRET_MIN_LENGTH, namespaceOf, SECRETS } from '@slipway/crds';
import { keepApiKey } from './api-keys.js';
import { type Context, ready, type StepOutcome } from './context.js';
import { plainText } from './resources.js';
import { ensureSecret, readSecret, type Values } from './secrets.js';

const LOOK_AGAIN_MS = 2_000;
const newSecret = () => randomBytes(32).toString('base64url');

export async function ensureKeys(context: Context): Promise<StepOutcome> {
  const own = await ownJwtSecret(context);
  if (typeof own === 'object') return own;
  const { keys } = SECRETS;
  const values = await ensureSecret(context, keys.name, (held) => wantedKeys(context, held, own));
  context.found.anonKey = values[keys.anonKey] as string;
  return ready;
}

function wantedKeys({ ref, world }: Context, held: Values, own: string | undefined): Values {
  const { keys } = SECRETS;
  const jwtSecret = own ?? (held[keys.jwtSecret] || newSecret());
  return {
    [keys.jwtSecret]: jwtSecret,
    [keys.anonKey]: keepApiKey(held[keys.anonKey], ref, 'anon', jwtSecret, world.now()),
    [keys.serviceRoleKey]: keepApiKey(held[keys.serviceRoleKey], ref, 'service_role', jwtSecret, world.now()),
    [keys.webhookSecret]: held[keys.webhookSecret] || newSecret(),
  };
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
