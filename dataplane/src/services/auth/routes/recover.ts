/**
 * Route POST /recover: mails a link to sign in and set a new password. Response and time are the same for every
 * address.
 */
import { emailMember, readJson } from '../body.js';
import { type Answer, type Context, ok, wantedRedirect } from '../context.js';
import { validationFailed } from '../errors.js';
import { requireMail } from '../mail/send.js';
import { mailCode } from '../messages.js';
import { challengeInBody } from '../sessions/flow-state.js';
import { byAddress, findUser } from '../users/find-user.js';

export async function recover(context: Context): Promise<Answer> {
  context.limits.byAddress('otp', context);
  const body = await readJson(context.request);
  const email = emailMember(body);
  if (!email) throw validationFailed('Password recovery requires an email');
  const challenge = challengeInBody(body);
  requireMail(context);
  context.limits.email(context, 'recovery', email);
  const redirectTo = wantedRedirect(context);
  context.outbox.post({
    ref: context.request.tenant.ref,
    kind: 'recovery',
    send: async () => {
      const recipient = await findUser(context.pool, byAddress({ email }));
      if (recipient && !recipient.banned) {
        await mailCode(context, recipient.user, 'recovery', { challenge, redirectTo, waiting: true });
      }
    },
  });
  return ok();
}
