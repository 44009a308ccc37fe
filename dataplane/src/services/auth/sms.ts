/** Sends text messages to users through the project's send_sms hook, which chooses the provider. */

import { canText } from '@slipway/installation/auth-settings.js';
import type { Context } from './context.js';
import { badRequest } from './errors.js';
import { invokeHook } from './hooks/invoke.js';
import { byId, findUser } from './users/find-user.js';
import { presentable, type User } from './users/user.js';

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

/** Queues a text message. Looks the user up when its turn comes, so that the queue contains no user data. */
export const textLater = (context: Context, { userId, ...message }: Omit<TextMessage, 'user'> & { userId: string }) =>
  context.outbox.post({
    ref: context.request.tenant.ref,
    kind: message.type,
    send: async () => {
      const recipient = await findUser(context.pool, byId(userId));
      if (recipient) await sendText(context, { ...message, user: recipient.user });
    },
  });

/** Test numbers have fixed codes, and get no message. */
export async function sendText(context: Context, { user, phone, code, type }: TextMessage): Promise<void> {
  if (context.config.sms.testCodes.has(phone)) return;
  const input = { user: presentable(user), sms: { otp: code, phone, sms_type: type } };
  await invokeHook(context, 'send_sms', input);
}
