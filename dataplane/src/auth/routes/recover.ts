/**
 * POST /recover: a link to sign in and set a new password. The answer, and the time it takes, is the same for
 * everybody.
 */
import { emailMember, readJson } from '../body.js';
import { type Answer, type Context, ok, wantedRedirect } from '../context.js';
import { validationFailed } from '../errors.js';
import { byAddress, findUser } from '../find-user.js';
import { challengeInBody } from '../flow-state.js';
import { requireMail } from '../mail/send.js';
import { mailCode } from '../messages.js';

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
      const found = await findUser(context.pool, byAddress({ email }));
      if (found && !found.banned) {
        await mailCode(context, found.user, 'recovery', { challenge, redirectTo, waiting: true });
      }
    },
  });
  return ok();
}
