/**
 * Messages that prove an address: creates a code, stores its hash, and posts the message. In: the user, the address and
 * the purpose. Called by the routes, which limit their rate.
 */
import type { Statement } from '../../sql/pool.js';
import type { Context } from './context.js';
import { type Letter, mail, mailLater } from './mail/send.js';
import { allowedRedirect } from './policy/redirect.js';
import { beginFlow, type Challenge } from './sessions/flow-state.js';
import { textLater } from './sms.js';
import { type Address, byId, findUser } from './users/find-user.js';
import { keepToken, newToken, type TokenType, tokenOf } from './users/one-time-token.js';
import type { User } from './users/user.js';

interface Ask {
  challenge: Challenge | undefined;
  redirectTo: string | null;
}

/** Mails or texts a new user a confirmation code. */
export async function askToConfirm(context: Context, ask: Ask & { userId: string; address: Address }): Promise<void> {
  const known = await findUser(context.pool, byId(ask.userId));
  if (known === undefined) return;
  if ('email' in ask.address) await mailCode(context, known.user, 'signup', ask);
  else await textCode(context, known.user, ask.address.phone, 'sms');
}

const KEPT_AS: Readonly<Record<MailedToUser, TokenType>> = {
  signup: 'confirmation_token',
  invite: 'confirmation_token',
  recovery: 'recovery_token',
  magiclink: 'recovery_token',
};
export type MailedToUser = 'signup' | 'invite' | 'recovery' | 'magiclink';

/** Authentication method of a session that begins when the user follows the link with PKCE. */
const METHOD_OF: Readonly<Record<MailedToUser, string>> = {
  signup: 'email/signup',
  invite: 'invite',
  recovery: 'recovery',
  magiclink: 'magiclink',
};

/** Mails to the user's address. If `waiting`, the request waits and gets the error of a failed mail. */
export async function mailCode(
  context: Context,
  user: User,
  action: MailedToUser,
  { challenge, redirectTo, waiting = false }: Ask & { waiting?: boolean },
): Promise<void> {
  const { config, pool, request } = context;
  const token = newToken(request.tenant, user.email, config.mail.otpLength, challenge !== undefined);
  await pool.batch([
    ...keepToken(user.id, KEPT_AS[action], token.hash, user.email),
    ...(challenge === undefined ? [] : beginFlow(user.id, challenge, METHOD_OF[action])),
  ]);
  const letter = {
    action,
    user,
    to: user.email,
    token,
    redirectTo: allowedRedirect(redirectTo, config, request.tenant.url),
  };
  if (waiting) await mail(context, letter);
  else mailLater(context, letter);
}

export async function textCode(
  context: Context,
  user: User,
  phone: string,
  type: 'sms' | 'phone_change',
): Promise<void> {
  const message = textOf(context, user, phone, type);
  await context.pool.batch(message.statements);
  message.post();
}

/** Message with a code: statements that store the code, to run with related changes, and `post`, to call afterwards. */
export interface Message {
  statements: Statement[];
  post(): void;
}

export const proofOfPhone = (context: Context, user: User, phone: string): Message => {
  const message = textOf(context, user, phone, 'phone_change');
  const wanted = {
    text: 'update auth.users set phone_change = $2, updated_at = now() where id = $1::uuid',
    values: [user.id, phone],
  };
  return { ...message, statements: [wanted, ...message.statements] };
};

function textOf(context: Context, { id }: User, phone: string, type: 'sms' | 'phone_change'): Message {
  const { config, request } = context;
  const fixed = config.sms.testCodes.get(phone);
  const token = fixed ? tokenOf(request.tenant, phone, fixed) : newToken(request.tenant, phone, config.sms.otpLength);
  return {
    statements: keepToken(id, type === 'sms' ? 'confirmation_token' : 'phone_change_token', token.hash, phone),
    post: () => textLater(context, { userId: id, phone, code: token.code, type }),
  };
}

/** Sends the codes of a change of address: to the new one, and to the present one if the project requires both. */
export function proofOfEmail(context: Context, user: User, newEmail: string, ask: Ask): Message {
  const { config, request } = context;
  const length = config.mail.otpLength;
  const pkce = ask.challenge !== undefined;
  const both = config.mail.secureEmailChange && user.email !== '';
  const tokenNew = newToken(request.tenant, newEmail, length, pkce);
  const tokenCurrent = both ? newToken(request.tenant, user.email, length, pkce) : undefined;
  const statements = [
    {
      text: `
update auth.users set email_change = $2, email_change_confirm_status = 0, email_change_token_current = '',
  updated_at = now() where id = $1::uuid`,
      values: [user.id, newEmail],
    },
    {
      text: `delete from auth.one_time_tokens where user_id = $1::uuid and token_type = 'email_change_token_current'`,
      values: [user.id],
    },
    ...keepToken(user.id, 'email_change_token_new', tokenNew.hash, newEmail),
    ...(tokenCurrent ? keepToken(user.id, 'email_change_token_current', tokenCurrent.hash, user.email) : []),
    ...(ask.challenge === undefined ? [] : beginFlow(user.id, ask.challenge, 'email_change')),
  ];
  const letter = {
    action: 'email_change' as const,
    user,
    newEmail,
    redirectTo: allowedRedirect(ask.redirectTo, config, request.tenant.url),
  };
  const letters = [
    { ...letter, to: newEmail, token: tokenNew },
    ...(tokenCurrent ? [{ ...letter, to: user.email, token: tokenCurrent }] : []),
  ];
  if (config.hooks.send_email === undefined || !tokenCurrent) return posted(context, statements, letters);
  // The hook gets both codes in one call, and their hashes are swapped, as by upstream.
  const token = { code: tokenCurrent.code, hash: tokenNew.hash };
  const crossed = { code: tokenNew.code, hash: tokenCurrent.hash };
  return posted(context, statements, [{ ...letter, to: newEmail, token, tokenNew: crossed }]);
}

const posted = (context: Context, statements: Statement[], letters: Letter[]): Message => ({
  statements,
  post: () => {
    for (const letter of letters) mailLater(context, letter);
  },
});
