/** Creates a session for an authenticated user, and the response. */
import { randomUUID } from 'node:crypto';
import type { Statement } from '../../../sql/pool.js';
import type { Context } from '../context.js';
import { deviceOf } from '../context.js';
import { forbidden } from '../errors.js';
import { type Grant, grant } from './grant.js';
import { jsonRows, newRefreshToken, type SignedIn, signIn } from './session.js';

export interface Proof {
  userId: string;
  method: string;
  /** Hash that the password was checked against. */
  passwordHash?: string | null;
}

/**
 * Creates a session, in one transaction with `before`, the statements that create the user. Returns undefined if the
 * user was banned or deleted, or got another password, since the proof.
 */
export async function startSession(
  context: Context,
  { userId, method, passwordHash }: Proof,
  before: readonly Statement[] = [],
): Promise<Grant | undefined> {
  const refreshToken = newRefreshToken();
  const device = deviceOf(context.request);
  const statements = signIn({ id: randomUUID(), userId, passwordHash, method, refreshToken, device });
  const [signedIn] = jsonRows<SignedIn>((await context.pool.batch([...before, ...statements])).at(-1));
  return signedIn && grant(context, signedIn, refreshToken, method);
}

export async function startSessionOrRefuse(
  context: Context,
  proof: Proof,
  before: readonly Statement[] = [],
): Promise<Grant> {
  const started = await startSession(context, proof, before);
  if (started === undefined) throw forbidden('user_banned', 'User is banned');
  return started;
}
