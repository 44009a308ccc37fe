/** Route POST /signup: creates a user by e-mail or phone, or an anonymous one. An unconfirmed user gets a message. */
import { randomUUID } from 'node:crypto';
import { confirmsEmail } from '@slipway/installation/auth-settings.js';
import { type Body, emailMember, object, phoneMember, readJson, text } from '../body.js';
import { type Answer, type Context, ok, wantedRedirect } from '../context.js';
import { badRequest, unprocessable, validationFailed } from '../errors.js';
import { askToConfirm } from '../messages.js';
import { checkStrength } from '../policy/password-rules.js';
import { type Challenge, challengeInBody } from '../sessions/flow-state.js';
import { startSessionOrRefuse } from '../sessions/sign-in.js';
import { requirePhone } from '../sms.js';
import { type Address, byAddress, findUser } from '../users/find-user.js';
import {
  addressMetadata,
  allowNewUser,
  firstIdentity,
  insertUser,
  type NewUser,
  ordinaryUser,
  takenAddress,
} from '../users/new-user.js';
import { hashPassword } from '../users/passwords.js';
import { readUser } from '../users/user-changes.js';

interface Wanted {
  address: Address;
  password: string;
  data: Record<string, unknown>;
  challenge: Challenge | undefined;
}

export async function signup(context: Context): Promise<Answer> {
  const { request, config, limits } = context;
  const body = await readJson(request);
  if (!body.email && !body.phone) return signUpAnonymously(context, body);
  limits.byAddress('attempts', context);
  if (config.disableSignup) throw unprocessable('signup_disabled', 'Signups not allowed for this instance');
  const wanted = parameters(context, body);
  const confirmed = isConfirmedAtOnce(context, wanted.address);
  const user = await newUser(context, wanted, confirmed);
  if (!confirmed) limitMessages(context, wanted.address);
  await allowNewUser(context, user);
  try {
    if (confirmed) {
      const proof = { userId: user.id, method: 'password' };
      return ok(await startSessionOrRefuse(context, proof, insertUser(user)));
    }
    await context.pool.batch(insertUser(user));
  } catch (error) {
    if (!takenAddress(error)) throw error;
    if (confirmed) throw unprocessable('user_already_exists', 'User already registered');
    return maskedSignupResponse(context, wanted, user);
  }
  await writeTo(context, wanted, user.id);
  return ok(await readUser(context.pool, user.id));
}

function parameters({ config }: Context, body: Body): Wanted {
  const [email, phone] = [emailMember(body), phoneMember(body)];
  const password = text(body, 'password');
  if (!password) throw validationFailed('Signup requires a valid password');
  checkStrength(password, config.passwords);
  if (email && phone) {
    throw validationFailed('Only an email address or phone number should be provided on signup.');
  }
  if (email && !config.emailEnabled) throw badRequest('email_provider_disabled', 'Email signups are disabled');
  if (phone && !config.phoneEnabled) throw badRequest('phone_provider_disabled', 'Phone signups are disabled');
  const address = email ? { email } : { phone: phone as string };
  return { address, password, data: object(body, 'data') ?? {}, challenge: challengeInBody(body) };
}

function isConfirmedAtOnce(context: Context, address: Address): boolean {
  if ('email' in address) return !confirmsEmail(context.config);
  if (context.config.sms.autoconfirm) return true;
  requirePhone(context);
  return false;
}

async function newUser(
  { request }: Context,
  { address, password, data }: Wanted,
  confirmed: boolean,
): Promise<NewUser> {
  const id = randomUUID();
  const passwordHash = await hashPassword(request.tenant.ref, password);
  const userMetadata = { ...addressMetadata({ id, ...address, verified: confirmed }), ...data };
  const isEmail = 'email' in address;
  return ordinaryUser(id, {
    ...address,
    passwordHash,
    userMetadata,
    signUpData: data,
    emailConfirmed: confirmed && isEmail,
    phoneConfirmed: confirmed && !isEmail,
  });
}

function limitMessages(context: Context, address: Address): void {
  if ('email' in address) context.limits.email(context, 'signup', address.email);
  else context.limits.sms(context, 'sms', address.phone);
}

async function writeTo(context: Context, { address, challenge }: Wanted, userId: string): Promise<void> {
  await askToConfirm(context, { userId, address, challenge, redirectTo: wantedRedirect(context) });
}

/** Returns the response of a new user although the address is taken: only the owner learns that, from the mail. */
async function maskedSignupResponse(context: Context, wanted: Wanted, user: NewUser): Promise<Answer> {
  const known = await findUser(context.pool, byAddress(wanted.address));
  const confirmed = 'email' in wanted.address ? known?.emailConfirmed : known?.phoneConfirmed;
  if (known && !confirmed && !known.banned) {
    await writeTo(context, wanted, known.user.id);
  }
  const { provider, data } = firstIdentity(user);
  const now = new Date().toISOString().replace('Z', '000Z');
  return ok({
    id: user.id,
    aud: 'authenticated',
    role: 'authenticated',
    email: user.email ?? '',
    phone: user.phone ?? '',
    confirmation_sent_at: now,
    app_metadata: { provider, providers: [provider] },
    user_metadata: user.userMetadata,
    is_anonymous: false,
    identities: [
      {
        identity_id: randomUUID(),
        id: user.id,
        user_id: user.id,
        identity_data: data,
        provider,
        last_sign_in_at: now,
        created_at: now,
        updated_at: now,
        email: user.email,
      },
    ],
    created_at: now,
    updated_at: now,
  });
}

async function signUpAnonymously(context: Context, body: Body): Promise<Answer> {
  const { config, limits } = context;
  if (config.disableSignup) throw unprocessable('signup_disabled', 'Signups not allowed for this instance');
  if (!config.anonymousEnabled) {
    throw unprocessable('anonymous_provider_disabled', 'Anonymous sign-ins are disabled');
  }
  limits.byAddress('anonymous', context);
  const user = ordinaryUser(randomUUID(), { anonymous: true, userMetadata: object(body, 'data') ?? {} });
  await allowNewUser(context, user);
  return ok(await startSessionOrRefuse(context, { userId: user.id, method: 'anonymous' }, insertUser(user)));
}
