/** Route GET /reauthenticate: sends the caller a code, which a password change of an old session needs. */
import { type Answer, type Context, ok } from '../context.js';
import { unprocessable } from '../errors.js';
import { signedInUser } from '../sessions/signed-in-user.js';
import { sendNonce } from '../users/reauthentication.js';

export async function reauthenticate(context: Context): Promise<Answer> {
  const { user } = await signedInUser(context);
  if (!user.email && !user.phone) {
    throw unprocessable('validation_failed', 'Reauthentication requires the user to have an email or a phone number');
  }
  if (user.email ? !user.email_confirmed_at : !user.phone_confirmed_at) {
    const kind = user.email ? 'email' : 'phone';
    throw unprocessable(`${kind}_not_confirmed`, `Please verify your ${kind} first.`);
  }
  await sendNonce(context, user);
  return ok();
}
