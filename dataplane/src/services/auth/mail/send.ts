/**
 * Sends mails to users: through the project's send_email hook if there is one, otherwise by SMTP with its templates.
 */

import { canMail, type MailName } from '@slipway/installation/auth-settings.js';
import type { Context } from '../context.js';
import { AuthError } from '../errors.js';
import { invokeHook } from '../hooks/invoke.js';
import { issuerOf } from '../sessions/grant.js';
import { byId, findUser } from '../users/find-user.js';
import type { OneTimeToken } from '../users/one-time-token.js';
import { presentable, type User } from '../users/user.js';
import { whyNotSent } from './failure.js';
import { sendBySmtp } from './smtp.js';
import { escapeHtml, escapeSubject, fillTemplate } from './texts.js';

/** Template of each type of /verify. */
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
  /** New address, only for a change of address. */
  newEmail?: string;
  /** Second recipient of a change of address. The hook gets both in one call, as upstream's does. */
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

/** Sends a mail for which the request waits, so that it gets the error. */
export async function mail(context: Context, letter: Letter): Promise<void> {
  try {
    await deliver(context, letter);
  } catch (error) {
    if (error instanceof AuthError) throw error;
    const { requestId, tenant } = context.request;
    context.log.warn({ requestId, ref: tenant.ref, reason: (error as { code?: string }).code }, 'mail not sent');
    const facts = { kind: letter.action, reason: whyNotSent(error), request_id: requestId };
    context.ownerLog?.write(tenant.ref, 'auth', { level: 'error', message: 'mail not sent', facts });
    throw new AuthError(500, 'unexpected_failure', `Error sending ${letter.action.replace('_', ' ')} email`);
  }
}

/** Sends a mail after the response. Reads the user when its turn comes, so that the queue contains no user data. */
export function mailLater(context: Context, { user: { id }, ...letter }: Letter): void {
  context.outbox.post({
    ref: context.request.tenant.ref,
    kind: letter.action,
    send: async () => {
      const recipient = await findUser(context.pool, byId(id));
      if (recipient) await deliver(context, { ...letter, user: recipient.user });
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

/** Builds the link from the project's own URL, never from a request's headers. */
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
