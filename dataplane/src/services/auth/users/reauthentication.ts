/** The code for changing the password in an old session: sent on request, and used once. */
import type { Context } from '../context.js';
import { unprocessable } from '../errors.js';
import { mail, requireMail } from '../mail/send.js';
import { sendText } from '../sms.js';
import { inTransaction } from '../transaction.js';
import { clearToken, hashesOf, keepToken, newToken, useToken } from './one-time-token.js';
import type { User } from './user.js';

export async function sendNonce(context: Context, user: User): Promise<void> {
  const { config, limits, pool, request } = context;
  if (user.email) {
    requireMail(context);
    limits.email(context, 'reauthentication', user.email);
    const token = newToken(request.tenant, user.email, config.mail.otpLength);
    await pool.batch(keepToken(user.id, 'reauthentication_token', token.hash, user.email));
    await mail(context, { action: 'reauthentication', user, to: user.email, token, redirectTo: config.siteUrl });
    return;
  }
  limits.sms(context, 'reauthentication', user.phone);
  const token = newToken(request.tenant, user.phone, config.sms.otpLength);
  await pool.batch(keepToken(user.id, 'reauthentication_token', token.hash, user.phone));
  await sendText(context, { user, phone: user.phone, code: token.code, type: 'reauthentication' });
}

export async function checkNonce(context: Context, user: User, nonce: string): Promise<void> {
  const address = user.email || user.phone;
  context.limits.codeGuess(context, address);
  const seconds = user.email ? context.config.mail.otpSeconds : context.config.sms.otpSeconds;
  const hashes = hashesOf(context.request.tenant, address, nonce);
  const used = await inTransaction(context.pool, async (work) => {
    const used = await work.first(useToken(hashes, ['reauthentication_token'], seconds));
    if (used !== undefined) await work.run([clearToken(user.id, 'reauthentication_token')]);
    return used;
  });
  if (used === undefined) {
    throw unprocessable('reauthentication_not_valid', 'Nonce has expired or is invalid');
  }
}
