/**
 * Writes to a user's e-mail address: by the project's send_email hook where there is one, else by SMTP with its
 * templates.
 */
import { canMail } from '../config.js';
import type { Context } from '../context.js';
import { AuthError } from '../errors.js';
import { byId, findUser } from '../find-user.js';
import { issuerOf } from '../grant.js';
import { invokeHook } from '../hooks/invoke.js';
import type { OneTimeToken } from '../one-time-token.js';
import { presentable, type User } from '../user.js';
import { sendBySmtp } from './smtp.js';
import { escapeHtml, escapeSubject, fillTemplate, type MailName } from './texts.js';

/** The types of /verify, and the template of each. */
const TEXT_OF = {
  signup: 'confirmation',
  invite: 'invite',
  recovery: 'recovery',
  magiclink: 'magic_link',
  email_change: 'email_change',
  reauthentication: 'reauthentication',
} as const satisfies Record<string, MailName>;
export type MailAction = keyof typeof TEXT_OF;

export interface Letter {
  action: MailAction;
  user: User;
  to: string;
  token: OneTimeToken;
  redirectTo: string;
  /** The new address, for a change of address alone. */
  newEmail?: string;
  /** The change goes to both addresses; the hook is told of both at once, as upstream does. */
  tokenNew?: OneTimeToken;
}

export function requireMail({ config }: Context): void {
  if (!config.emailEnabled) throw new AuthError(400, 'email_provider_disabled', 'Email logins are disabled');
  if (!canMail(config)) {
    throw new AuthError(
      422,
      'email_provider_disabled',
      'This project sends no e-mail: set GOTRUE_SMTP_HOST or a send_email hook in its Secret auth-config',
    );
  }
}

/** Somebody waits for it: a failure is theirs to see. */
export async function mail(context: Context, letter: Letter): Promise<void> {
  try {
    await deliver(context, letter);
  } catch (error) {
    if (error instanceof AuthError) throw error;
    const { requestId, tenant } = context.request;
    context.log.warn(
      { requestId, ref: tenant.ref, reason: (error as { code?: string }).code },
      'a mail could not be sent',
    );
    throw new AuthError(500, 'unexpected_failure', `Error sending ${letter.action.replace('_', ' ')} email`);
  }
}

/**
 * Nobody waits for it. Who it is about is looked up once it is its turn: what users say of themselves is not held
 * meanwhile.
 */
export function mailLater(context: Context, { user: { id }, ...letter }: Letter): void {
  context.outbox.post({
    ref: context.request.tenant.ref,
    kind: letter.action,
    send: async () => {
      const found = await findUser(context.pool, byId(id));
      if (found) await deliver(context, { ...letter, user: found.user });
    },
  });
}

async function deliver(context: Context, letter: Letter): Promise<void> {
  const { config } = context;
  if (config.hooks.send_email !== undefined) {
    await invokeHook(context, 'send_email', { user: presentable(letter.user), email_data: hookData(context, letter) });
    return;
  }
  const { subject, html } = config.mail.texts[TEXT_OF[letter.action]];
  const values = templateValues(context, letter);
  await sendBySmtp(context.outbound, config, {
    to: letter.to,
    subject: fillTemplate(subject, values, escapeSubject),
    html: fillTemplate(html, values, escapeHtml),
  });
}

/** Always at the project's own address: never at what a request's headers name. */
export function confirmationUrl(context: Context, action: string, hash: string, redirectTo: string): string {
  const parameters = new URLSearchParams({ token: hash, type: action, redirect_to: redirectTo });
  return `${issuerOf(context.request.tenant)}/verify?${parameters}`;
}

const templateValues = (context: Context, { action, user, token, redirectTo, newEmail, to }: Letter) => ({
  SiteURL: context.config.siteUrl,
  ConfirmationURL: confirmationUrl(context, action, token.hash, redirectTo),
  Email: user.email || to,
  NewEmail: newEmail ?? '',
  Token: token.code,
  TokenHash: token.hash,
  RedirectTo: redirectTo,
  Data: user.user_metadata,
});

const hookData = (context: Context, { action, token, tokenNew, redirectTo }: Letter) => ({
  token: token.code,
  token_hash: token.hash,
  redirect_to: redirectTo,
  email_action_type: action,
  site_url: issuerOf(context.request.tenant),
  token_new: tokenNew?.code ?? '',
  token_hash_new: tokenNew?.hash ?? '',
});
