/**
 * Routes POST /otp and /magiclink: mail or text a sign-in code or link. Only with `create_user: false` does the
 * response reveal whether the user exists.
 */
import { randomUUID } from 'node:crypto';
import { confirmsEmail } from '@slipway/installation/auth-settings.js';
import { type Body, emailMember, flag, object, phoneMember, readJson } from '../body.js';
import { type Answer, type Context, ok, wantedRedirect } from '../context.js';
import { unprocessable, validationFailed } from '../errors.js';
import { requireMail } from '../mail/send.js';
import { mailCode, textCode } from '../messages.js';
import { challengeInBody } from '../sessions/flow-state.js';
import { requirePhone } from '../sms.js';
import { type Address, byAddress, byId, type FoundUser, findUser } from '../users/find-user.js';
import { addressMetadata, allowNewUser, insertUser, ordinaryUser, takenAddress } from '../users/new-user.js';

export async function otp(context: Context): Promise<Answer> {
  context.limits.byAddress('otp', context);
  const body = await readJson(context.request);
  const [email, phone] = [emailMember(body), phoneMember(body)];
  if (email && phone) {
    throw validationFailed('Only an email address or phone number should be provided');
  }
  if (phone) return byPhone(context, body, phone);
  if (!email) throw validationFailed('One of email or phone must be set');
  return byEmail(context, body, email);
}

async function byEmail(context: Context, body: Body, email: string): Promise<Answer> {
  const challenge = challengeInBody(body);
  requireMail(context);
  context.limits.email(context, 'magiclink', email);
  const target = await findOrMake(context, body, { email });
  if (target !== undefined) {
    const action = target.emailConfirmed || !confirmsEmail(context.config) ? 'magiclink' : 'signup';
    const { ref } = context.request.tenant;
    const redirectTo = wantedRedirect(context);
    const { id } = target.user;
    // Statements for an existing user also run after the response, whose time thus reveals nothing.
    context.outbox.post({
      ref,
      kind: action,
      send: async () => {
        const known = await findUser(context.pool, byId(id));
        if (known) await mailCode(context, known.user, action, { challenge, redirectTo, waiting: true });
      },
    });
  }
  return ok();
}

async function byPhone(context: Context, body: Body, phone: string): Promise<Answer> {
  requirePhone(context);
  context.limits.sms(context, 'sms', phone);
  const target = await findOrMake(context, body, { phone });
  if (target !== undefined) {
    const { ref } = context.request.tenant;
    const { id } = target.user;
    const send = async () => {
      const known = await findUser(context.pool, byId(id));
      if (known) await textCode(context, known.user, phone, 'sms');
    };
    context.outbox.post({ ref, kind: 'sms', send });
  }
  return ok({ message_id: '' });
}

async function findOrMake(context: Context, body: Body, address: Address): Promise<FoundUser | undefined> {
  const { pool, config } = context;
  const create = flag(body, 'create_user', true);
  const data = object(body, 'data') ?? {};
  const known = await findUser(pool, byAddress(address));
  if (known) return known.banned ? undefined : known;
  // A request that creates no user gets an error if there is none, as upstream's does.
  if (!create) throw unprocessable('otp_disabled', 'Signups not allowed for otp');
  if (config.disableSignup) return undefined;
  const id = randomUUID();
  const userMetadata = { ...addressMetadata({ id, ...address }), ...data };
  const user = ordinaryUser(id, { ...address, userMetadata, signUpData: data });
  await allowNewUser(context, user);
  try {
    await pool.batch(insertUser(user));
  } catch (error) {
    // A concurrent request created a user with the address.
    if (!takenAddress(error)) throw error;
    return findUser(pool, byAddress(address));
  }
  return findUser(pool, byId(id));
}
