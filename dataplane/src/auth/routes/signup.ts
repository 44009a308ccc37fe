/** POST /signup: a new user, who is confirmed and signed in at once as no mail is sent here. */
import { randomUUID } from 'node:crypto';
import { type Answer, type Context, deviceOf, object, readJson, text, validEmail } from '../context.js';
import { badRequest, unprocessable, validationFailed } from '../errors.js';
import { insertUser, takenAddress } from '../new-user.js';
import { checkStrength, hashPassword } from '../passwords.js';
import { grant, jsonRows, newRefreshToken, type SignedIn, signIn } from '../session.js';

export async function signup({ request, pool }: Context): Promise<Answer> {
  const body = await readJson(request);
  const { email, password, userMetadata } = parameters(body);
  const passwordHash = await hashPassword(password);
  const userId = randomUUID();
  const refreshToken = newRefreshToken();
  const statements = [
    ...insertUser({
      id: userId,
      email,
      phone: null,
      passwordHash,
      emailConfirmed: true,
      phoneConfirmed: false,
      role: 'authenticated',
      appMetadata: {},
      userMetadata: { sub: userId, email, email_verified: true, phone_verified: false, ...userMetadata },
      bannedUntil: null,
    }),
    ...signIn({ id: randomUUID(), userId, passwordHash, refreshToken, device: deviceOf(request) }),
  ];
  const results = await pool.batch(statements).catch((error: unknown) => {
    throw takenAddress(error) ? unprocessable('user_already_exists', 'User already registered') : error;
  });
  const [signedIn] = jsonRows<SignedIn>(results.at(-1));
  return { status: 200, body: grant(request.tenant, signedIn as SignedIn, refreshToken) };
}

function parameters(body: Record<string, unknown>) {
  const email = text(body, 'email');
  const phone = text(body, 'phone');
  const password = text(body, 'password');
  if (!email && !phone && !password) {
    throw unprocessable('anonymous_provider_disabled', 'Anonymous sign-ins are disabled');
  }
  if (!password) throw validationFailed('Signup requires a valid password');
  checkStrength(password);
  if (email && phone) {
    throw validationFailed('Only an email address or phone number should be provided on signup.');
  }
  if (phone) throw badRequest('phone_provider_disabled', 'Phone signups are disabled');
  return { email: validEmail(email ?? ''), password, userMetadata: object(body, 'data') ?? {} };
}
