/**
 * Route POST /resend: repeats the message of a sign-up or of a change of address. The response does not reveal whether
 * a user exists.
 */
import { type Body, emailMember, phoneMember, readJson, text } from '../body.js';
import { type Answer, type Context, ok, wantedRedirect } from '../context.js';
import { validationFailed } from '../errors.js';
import { requireMail } from '../mail/send.js';
import { mailCode, proofOfEmail, textCode } from '../messages.js';
import { challengeInBody } from '../sessions/flow-state.js';
import { AUDIENCE, jsonRows } from '../sessions/session.js';
import { requirePhone } from '../sms.js';
import { byAddress, findUser } from '../users/find-user.js';
import { type User, userJson } from '../users/user.js';

const EMAIL_TYPES = ['signup', 'email_change'] as const;
const PHONE_TYPES = ['sms', 'phone_change'] as const;

export async function resend(context: Context): Promise<Answer> {
  context.limits.byAddress('otp', context);
  const body = await readJson(context.request);
  const type = text(body, 'type');
  const emailType = EMAIL_TYPES.find((each) => each === type);
  if (emailType) return resendMail(context, body, emailType);
  const phoneType = PHONE_TYPES.find((each) => each === type);
  if (phoneType) return resendText(context, body, phoneType);
  throw validationFailed('Missing one of these types: signup, email_change, sms, phone_change');
}

function resendMail(context: Context, body: Body, type: (typeof EMAIL_TYPES)[number]): Answer {
  const email = emailMember(body);
  if (!email) throw validationFailed('Type provided requires an email address');
  const ask = { challenge: challengeInBody(body), redirectTo: wantedRedirect(context) };
  requireMail(context);
  context.limits.email(context, type, email);
  later(context, type, async () => {
    if (type === 'signup') {
      const recipient = await findUser(context.pool, byAddress({ email }));
      if (recipient && !recipient.emailConfirmed)
        await mailCode(context, recipient.user, 'signup', { ...ask, waiting: true });
    } else {
      const user = await changing(context, 'email', email);
      if (!user) return;
      const message = proofOfEmail(context, user, String(user.new_email), ask);
      await context.pool.batch(message.statements);
      message.post();
    }
  });
  return ok();
}

function resendText(context: Context, body: Body, type: (typeof PHONE_TYPES)[number]): Answer {
  const phone = phoneMember(body);
  if (!phone) throw validationFailed('Type provided requires a phone number');
  requirePhone(context);
  context.limits.sms(context, type, phone);
  later(context, type, async () => {
    if (type === 'sms') {
      const recipient = await findUser(context.pool, byAddress({ phone }));
      if (recipient && !recipient.phoneConfirmed) await textCode(context, recipient.user, phone, 'sms');
    } else {
      const user = await changing(context, 'phone', phone);
      if (user) await textCode(context, user, phone, 'phone_change');
    }
  });
  return ok({ message_id: '' });
}

const later = (context: Context, kind: string, send: () => Promise<void>) =>
  context.outbox.post({ ref: context.request.tenant.ref, kind, send });

/** Returns the user who changes an address, by the present e-mail address or the new phone number. */
async function changing({ pool }: Context, kind: 'email' | 'phone', address: string): Promise<User | undefined> {
  const condition = kind === 'email' ? "u.email = $1 and u.email_change <> ''" : 'u.phone_change = $1';
  const [result] = await pool.batch([
    {
      name: `auth.changing.${kind}`,
      text: `select ${userJson('u')} from auth.users u
where ${condition} and u.aud = $2 and u.deleted_at is null and coalesce(u.banned_until <= now(), true)`,
      values: [address, AUDIENCE],
    },
  ]);
  return jsonRows<User>(result)[0];
}
