/** Hands a mail to the project's SMTP server, by its GOTRUE_SMTP_* settings. */
import { createTransport } from 'nodemailer';
import type SMTPTransport from 'nodemailer/lib/smtp-transport';
import type { AuthConfig } from '../config.js';
import type { Outbound } from '../outbound.js';

export interface Mail {
  to: string;
  subject: string;
  html: string;
}

const TIMEOUT_MS = 10_000;
/** Timeout of a whole delivery: a server that sends a byte now and then is never silent. */
const PATIENCE_MS = 30_000;
const IMPLICIT_TLS_PORT = 465;

export async function sendBySmtp(outbound: Outbound, { mail }: AuthConfig, { to, subject, html }: Mail): Promise<void> {
  const end = new AbortController();
  const late = setTimeout(() => end.abort(), PATIENCE_MS);
  const transport = createTransport({
    host: mail.host as string,
    port: mail.port,
    secure: mail.port === IMPLICIT_TLS_PORT,
    ...(mail.user === undefined ? {} : { auth: { user: mail.user, pass: mail.password ?? '' } }),
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    // A template is text: it may not name files or addresses to read.
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

/** The mailer would look names up by itself; its TLS still asks for the name that the settings have. */
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
