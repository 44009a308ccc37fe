/**
 * Mails of auth: subject and HTML, replaceable by GOTRUE_MAILER_SUBJECTS_* and GOTRUE_MAILER_TEMPLATES_*. Templates
 * have upstream's variables, such as `{{ .ConfirmationURL }}`, and no other syntax.
 */
import type { ConfigReader } from './config-reader.js';
import { line } from './values.js';

const MAILS = ['confirmation', 'invite', 'recovery', 'magic_link', 'email_change', 'reauthentication'] as const;
export type MailName = (typeof MAILS)[number];

export interface MailText {
  subject: string;
  html: string;
}

const link = (title: string, sentence: string, label: string) =>
  `<h2>${title}</h2>\n\n<p>${sentence}</p>\n<p><a href="{{ .ConfirmationURL }}">${label}</a></p>\n` +
  '<p>Alternatively, enter the code: {{ .Token }}</p>';

const DEFAULTS: Readonly<Record<MailName, MailText>> = {
  confirmation: {
    subject: 'Confirm Your Email',
    html: link('Confirm your email', 'Follow this link to confirm your email:', 'Confirm your email address'),
  },
  invite: {
    subject: 'You have been invited',
    html: link(
      'You have been invited',
      'You have been invited to create a user on {{ .SiteURL }}. Follow this link to accept the invite:',
      'Accept the invite',
    ),
  },
  recovery: {
    subject: 'Reset Your Password',
    html: link('Reset password', 'Follow this link to reset the password for your user:', 'Reset password'),
  },
  magic_link: {
    subject: 'Your Magic Link',
    html: link('Magic link', 'Follow this link to log in:', 'Log in'),
  },
  email_change: {
    subject: 'Confirm Email Change',
    html: link(
      'Confirm email change',
      'Follow this link to confirm the update of your email from {{ .Email }} to {{ .NewEmail }}:',
      'Change email address',
    ),
  },
  reauthentication: {
    subject: 'Confirm reauthentication',
    html: '<h2>Confirm reauthentication</h2>\n\n<p>Enter the code: {{ .Token }}</p>',
  },
};

export const mailTexts = (reader: ConfigReader): Readonly<Record<MailName, MailText>> =>
  Object.fromEntries(
    MAILS.map((name) => {
      const subject = reader.read(`MAILER_SUBJECTS_${name.toUpperCase()}`, DEFAULTS[name].subject, line);
      const html = reader.read(`MAILER_TEMPLATES_${name.toUpperCase()}`, DEFAULTS[name].html, templateText);
      return [name, { subject, html }];
    }),
  ) as Record<MailName, MailText>;

/** Reads a template. Upstream also accepts a URL of a template; this service accepts only the template itself. */
function templateText(text: string): string {
  if (/^(https?:\/\/|\/)\S+$/.test(text.trim())) throw new Error('it must be the template itself, not its address');
  return text;
}
