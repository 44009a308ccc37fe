/** Sends a mail through the project's SMTP server, by its GOTRUE_SMTP_* settings. */

import type { AuthConfig } from '@slipway/installation/auth-settings.js';
import type { Outbound } from '@slipway/program/outbound.js';
import { createTransport } from 'nodemailer';
import type SMTPTransport from 'nodemailer/lib/smtp-transport';

export interface Mail {
  to: string;
  subject: string;
  html: string;
}

const TIMEOUT_MS = 10_000;
/**
 * Maximum milliseconds of a whole delivery. A server that sends a byte now and then would never time out by silence.
 */
const PATIENCE_MS = 30_000;
const IMPLICIT_TLS_PORT = 465;

export async function sendBySmtp(
  outbound: Outbound,
  { mail }: AuthConfig,
  { to, subject, html }: Mail,
  patienceMs = PATIENCE_MS,
): Promise<void> {
  const end = new AbortController();
  const late = setTimeout(() => end.abort(), patienceMs);
  const transport = createTransport({
    host: mail.host as string,
    port: mail.port,
    secure: mail.port === IMPLICIT_TLS_PORT,
    ...(mail.user === undefined ? {} : { auth: { user: mail.user, pass: mail.password ?? '' } }),
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    // Files and URLs are disabled, so that a template is only text.
    disableFileAccess: true,
    disableUrlAccess: true,
    getSocket: connecting(outbound, end.signal),
  });
  try {
    const from = mail.from ?? `noreply@${mail.host}`;
    await transport.sendMail({
      from: mail.senderName === undefined ? from : { name: mail.senderName, address: from },
      to: { name: '', address: to },
      subject,
      html,
    });
  } finally {
    clearTimeout(late);
    transport.close();
  }
}

/**
 * Returns how to connect to a mail server. Its name is resolved here, with the address rules, instead of in the mailer.
 * TLS still verifies the configured name.
 */
const connecting =
  (outbound: Outbound, end: AbortSignal): NonNullable<SMTPTransport.Options['getSocket']> =>
  (options, callback) => {
    outbound.connect(options.host as string, Number(options.port), TIMEOUT_MS).then(
      (connection) => {
        end.addEventListener('abort', () => connection.destroy());
        callback(null, { connection });
      },
      (error: Error) => callback(error, undefined),
    );
  };
