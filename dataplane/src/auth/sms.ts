/**
 * Writes to a user's phone through the project's send_sms hook: which service carries the message is the hook's
 * business.
 */
import { canText } from './config.js';
import type { Context } from './context.js';
import { badRequest } from './errors.js';
import { byId, findUser } from './find-user.js';
import { invokeHook } from './hooks/invoke.js';
import { presentable, type User } from './user.js';

export interface TextMessage {
  user: User;
  phone: string;
  code: string;
  type: 'sms' | 'phone_change' | 'reauthentication';
}

export function requirePhone({ config }: Context): void {
  if (!config.phoneEnabled) throw badRequest('phone_provider_disabled', 'Phone logins are disabled');
  if (!canText(config) && config.sms.testCodes.size === 0) {
    throw badRequest(
      'phone_provider_disabled',
      'This project sends no SMS: set a send_sms hook in its Secret auth-config',
    );
  }
}

/** Queues a text message. Its user is looked up when its turn comes, so that the queue holds no user data. */
export const textLater = (context: Context, { userId, ...message }: Omit<TextMessage, 'user'> & { userId: string }) =>
  context.outbox.post({
    ref: context.request.tenant.ref,
    kind: message.type,
    send: async () => {
      const found = await findUser(context.pool, byId(userId));
      if (found) await sendText(context, { ...message, user: found.user });
    },
  });

/** Numbers with a code of their own are for tests, and get no message. */
export async function sendText(context: Context, { user, phone, code, type }: TextMessage): Promise<void> {
  if (context.config.sms.testCodes.has(phone)) return;
  const input = { user: presentable(user), sms: { otp: code, phone, sms_type: type } };
  await invokeHook(context, 'send_sms', input);
}
