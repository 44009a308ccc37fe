/** GET /reauthenticate: sends the user who calls a code, which changing the password of an old session asks for. */
import { type Answer, type Context, ok } from '../context.js';
import { unprocessable } from '../errors.js';
import { sendNonce } from '../reauthentication.js';
import { signedInUser } from '../signed-in-user.js';

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
