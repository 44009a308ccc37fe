/** Routes GET and PUT /user: the caller's own user, by access token. */

import { canMail } from '@slipway/installation/auth-settings.js';
import type { Statement } from '../../../sql/pool.js';
import { type Body, emailMember, object, phoneMember, readJson, text } from '../body.js';
import { type Answer, type Context, ok, wantedRedirect } from '../context.js';
import { badRequest, emailExists, forbidden, phoneExists, unprocessable } from '../errors.js';
import { type Message, proofOfEmail, proofOfPhone } from '../messages.js';
import { checkStrength } from '../policy/password-rules.js';
import { type Challenge, challengeInBody } from '../sessions/flow-state.js';
import { requireSecondFactor, type SignedInUser, signedInUser } from '../sessions/signed-in-user.js';
import { requirePhone } from '../sms.js';
import { byAddress, findUser } from '../users/find-user.js';
import { refuseTakenAddress } from '../users/new-user.js';
import { hashPassword, verifyPassword } from '../users/passwords.js';
import { checkNonce } from '../users/reauthentication.js';
import { presentable } from '../users/user.js';
import { confirm, readUser, setEmail, setPassword, setPhone, setUserMetadata } from '../users/user-changes.js';

export async function getUser(context: Context): Promise<Answer> {
  const { user } = await signedInUser(context);
  return ok(presentable(user));
}

interface Changes {
  email: string | undefined;
  phone: string | undefined;
  password: string | undefined;
  nonce: string | undefined;
  data: Record<string, unknown> | undefined;
  challenge: Challenge | undefined;
}

export async function updateUser(context: Context): Promise<Answer> {
  const signedIn = await signedInUser(context);
  const changes = parameters(context, await readJson(context.request), signedIn);
  mayChange(context, changes, signedIn);
  await refuseAddressesOfOthers(context, changes);
  // Limits are checked first, before a code is used up or a field changed.
  const proofs = askForProof(context, changes, signedIn);
  const statements = [
    ...(await passwordStatements(context, changes, signedIn)),
    ...(changes.data === undefined ? [] : [setUserMetadata(signedIn.user.id, changes.data)]),
    ...addressesAtOnce(context, changes, signedIn),
    ...proofs.flatMap((proof) => proof.statements),
  ];
  const user = await readUser(context.pool, signedIn.user.id, statements, refuseTakenAddress);
  for (const proof of proofs) proof.post();
  return ok(user);
}

/** Reads the changes that a user may request. The present address is no change. */
function parameters({ config }: Context, body: Body, { user }: SignedInUser): Changes {
  if (body.app_metadata) throw forbidden('not_admin', 'Updating app_metadata requires admin privileges');
  const [email, phone] = [emailMember(body), phoneMember(body)];
  const password = text(body, 'password') || undefined;
  if (password !== undefined) checkStrength(password, config.passwords);
  return {
    email: email === user.email ? undefined : email,
    phone: phone === user.phone ? undefined : phone,
    password,
    nonce: text(body, 'nonce'),
    data: object(body, 'data') ?? object(body, 'user_metadata'),
    challenge: challengeInBody(body),
  };
}

function mayChange(context: Context, { email, phone, password }: Changes, signedIn: SignedInUser): void {
  if (email !== undefined || phone !== undefined || password !== undefined) {
    requireSecondFactor(signedIn, 401, 'AAL2 session is required to update email or password when MFA is enabled.');
  }
  if (signedIn.user.is_anonymous && password !== undefined && !email && !phone) {
    throw unprocessable(
      'validation_failed',
      'Updating password of an anonymous user without an email or phone is not allowed',
    );
  }
  if (phone !== undefined && !context.config.sms.autoconfirm) requirePhone(context);
  if (email !== undefined && !context.config.emailEnabled) {
    throw badRequest('email_provider_disabled', 'Email logins are disabled');
  }
}

async function refuseAddressesOfOthers({ pool }: Context, { email, phone }: Changes): Promise<void> {
  if (email !== undefined && (await findUser(pool, byAddress({ email })))) throw emailExists();
  if (phone !== undefined && (await findUser(pool, byAddress({ phone })))) throw phoneExists();
}

const DAY_SECONDS = 86_400;

async function passwordStatements(
  context: Context,
  { password, nonce }: Changes,
  { user, passwordHash, sessionId, sessionAgeSeconds }: SignedInUser,
): Promise<Statement[]> {
  if (password === undefined) return [];
  const recent = sessionAgeSeconds !== null && sessionAgeSeconds < DAY_SECONDS;
  if (context.config.passwords.reauthenticate && !recent) {
    if (!nonce) throw badRequest('reauthentication_needed', 'Password update requires reauthentication');
    await checkNonce(context, user, nonce);
  }
  const { ref } = context.request.tenant;
  if (passwordHash && (await verifyPassword(ref, password, passwordHash))) {
    throw unprocessable('same_password', 'New password should be different from the old password.');
  }
  return setPassword(user.id, await hashPassword(ref, password), sessionId);
}

/**
 * Returns statements that change addresses without a proof: if no message can be sent, or, as at a sign-up, for an
 * anonymous user.
 */
function addressesAtOnce({ config }: Context, { email, phone }: Changes, { user }: SignedInUser): Statement[] {
  const emailAtOnce = email !== undefined && isAtOnce(config, user.is_anonymous);
  return [
    ...(emailAtOnce ? [...setEmail(user.id, email), ...confirm(user.id, 'email')] : []),
    ...(phone !== undefined && config.sms.autoconfirm
      ? [...setPhone(user.id, phone), ...confirm(user.id, 'phone')]
      : []),
  ];
}

const isAtOnce = (config: Context['config'], anonymous: boolean) =>
  !canMail(config) || (anonymous && config.mail.autoconfirm === true);

function askForProof(context: Context, { email, phone, challenge }: Changes, { user }: SignedInUser): Message[] {
  const { config, limits } = context;
  const byMail = email !== undefined && !isAtOnce(config, user.is_anonymous);
  const byText = phone !== undefined && !config.sms.autoconfirm;
  if (byMail) limits.email(context, 'email_change', user.email || email);
  if (byText) limits.sms(context, 'phone_change', phone);
  return [
    ...(byMail ? [proofOfEmail(context, user, email, { challenge, redirectTo: wantedRedirect(context) })] : []),
    ...(byText ? [proofOfPhone(context, user, phone)] : []),
  ];
}
