/** SMTP server for tests, which stores received mails by address. */
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';

export interface Received {
  to: string;
  subject: string;
  html: string;
  /** Code of digits in the mail. */
  code: string;
  /** First link in the mail. */
  link: string;
}

export interface Mailbox {
  settings: Record<string, string>;
  /** Returns the next mail to `address` that no test has read; waits for it. */
  next(address: string): Promise<Received>;
  /** Number of mails to `address`, read or not. */
  countOf(address: string): number;
  close(): Promise<void>;
}

const LOGIN = { user: 'mailer', pass: 'mail-canary-5d1f' };

export async function startMailbox(): Promise<Mailbox> {
  const waiting = new Map<string, Received[]>();
  const counts = new Map<string, number>();
  let arrived = Promise.withResolvers<void>();
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    onAuth: ({ username, password }, _session, done) =>
      username === LOGIN.user && password === LOGIN.pass ? done(null, { user: username }) : done(new Error('no')),
    onData: (stream, session, done) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        for (const { address } of session.envelope.rcptTo) {
          counts.set(address, (counts.get(address) ?? 0) + 1);
          waiting.set(address, [...(waiting.get(address) ?? []), parse(address, Buffer.concat(chunks).toString())]);
        }
        done();
        arrived.resolve();
        arrived = Promise.withResolvers();
      });
    },
  });
  server.on('error', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.server.address() as AddressInfo;
  return {
    settings: {
      GOTRUE_SMTP_HOST: '127.0.0.1',
      GOTRUE_SMTP_PORT: String(port),
      GOTRUE_SMTP_USER: LOGIN.user,
      GOTRUE_SMTP_PASS: LOGIN.pass,
      GOTRUE_SMTP_ADMIN_EMAIL: 'noreply@example.com',
      GOTRUE_SMTP_SENDER_NAME: 'The App',
    },
    next: async (address) => {
      for (;;) {
        const mail = waiting.get(address)?.shift();
        if (mail) return mail;
        await soon(arrived.promise, address);
      }
    },
    countOf: (address) => counts.get(address) ?? 0,
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

const PATIENCE_MS = 20_000;

/** Rejects after a timeout, so that a test fails instead of hanging. */
function soon(arrival: Promise<void>, address: string): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const patience = setTimeout(() => reject(new Error(`no mail came for ${address}`)), PATIENCE_MS);
  return Promise.race([arrival, promise]).finally(() => clearTimeout(patience));
}

function parse(to: string, text: string): Received {
  const end = text.indexOf('\r\n\r\n');
  const head = text.slice(0, end).replaceAll(/\r\n[ \t]+/g, ' ');
  const quoted = /content-transfer-encoding: quoted-printable/i.test(head);
  const body = text.slice(end + 4);
  const html = (quoted ? unquoted(body) : body).replaceAll('&amp;', '&');
  return {
    to,
    subject: /^subject: (.*)$/im.exec(head)?.[1] ?? '',
    html,
    code: />?(?:code: )(\d{6,10})/.exec(html)?.[1] ?? '',
    link: /href="([^"]+)"/.exec(html)?.[1] ?? '',
  };
}

const unquoted = (text: string) =>
  text
    .replaceAll(/=\r\n/g, '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
