/** Grant by an address and its password. */
import { type Body, phoneMember, readJson, text } from '../body.js';
import { type Answer, type Context, ok } from '../context.js';
import { badRequest, invalidCredentials, validationFailed } from '../errors.js';
import { invokeHook, messageOf, rejected } from '../hooks/invoke.js';
import { startSession } from '../sessions/sign-in.js';
import { type Address, byAddress, type FoundUser, findUser } from '../users/find-user.js';
import { verifyPassword } from '../users/passwords.js';
import { endSessions } from '../users/user-changes.js';

export async function passwordGrant(context: Context): Promise<Answer> {
  context.limits.byAddress('attempts', context);
  const { address, password } = credentials(context, await readJson(context.request));
  const candidate = await findUser(context.pool, byAddress(address));
  const matches = await verifyPassword(context.request.tenant.ref, password, candidate?.passwordHash);
  if (candidate) await askHook(context, candidate, matches);
  if (!candidate || !matches) throw invalidCredentials();
  if (candidate.banned) throw badRequest('user_banned', 'User is banned');
  if ('email' in address && !candidate.emailConfirmed) {
    throw badRequest('email_not_confirmed', 'Email not confirmed');
  }
  if ('phone' in address && !candidate.phoneConfirmed) {
    throw badRequest('phone_not_confirmed', 'Phone not confirmed');
  }
  const { user, passwordHash } = candidate;
  const started = await startSession(context, { userId: user.id, method: 'password', passwordHash });
  if (!started) throw invalidCredentials();
  return ok(started);
}

function credentials({ config }: Context, body: Body): { address: Address; password: string } {
  const email = text(body, 'email')?.toLowerCase();
  const phone = phoneMember(body);
  const password = text(body, 'password') ?? '';
  if (email && phone) {
    throw validationFailed('Only an email address or phone number should be provided on login.');
  }
  if (phone) {
    if (!config.phoneEnabled) throw badRequest('phone_provider_disabled', 'Phone logins are disabled');
    return { address: { phone }, password };
  }
  if (!email) throw validationFailed('missing email or phone');
  if (!config.emailEnabled) throw badRequest('email_provider_disabled', 'Email logins are disabled');
  return { address: { email }, password };
}

/** Calls the hook for each attempt at an existing user. The hook may reject even a right password. */
async function askHook(context: Context, { user }: FoundUser, valid: boolean): Promise<void> {
  const output = await invokeHook(context, 'password_verification_attempt', { user_id: user.id, valid });
  if (!rejected(output)) return;
  if (output?.should_logout_user === true) {
    await context.pool.batch(endSessions(user.id));
  }
  throw badRequest(
    'invalid_credentials',
    messageOf(output, 'Further password verification attempts will be rejected.'),
  );
}
