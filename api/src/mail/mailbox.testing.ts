/** An SMTP server for tests, which stores received mails by address. */
import { mkdtemp, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { SMTPServer } from 'smtp-server';
import type { MailSettings } from '../settings/mail-settings.js';

export interface Received {
  subject: string;
  headers: string;
  text: string;
  /** The first link of the mail, and the token at its end. */
  link: string;
  token: string;
}

const LOGIN = { user: 'mailer', pass: 'mail-canary-77c2' };
const PATIENCE_MS = 30_000;

export async function startMailbox() {
  const boxes = new Map<string, Received[]>();
  let arrived = Promise.withResolvers<void>();
  let isRefusing = false;
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    onAuth: ({ username, password }, _session, done) =>
      username === LOGIN.user && password === LOGIN.pass ? done(null, { user: username }) : done(new Error('no')),
    onMailFrom: (_address, _session, done) => done(isRefusing ? new Error('no mail is accepted') : null),
    onData: (stream, session, done) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const mail = parse(Buffer.concat(chunks).toString());
        for (const { address } of session.envelope.rcptTo) boxes.set(address, [...(boxes.get(address) ?? []), mail]);
        done();
        arrived.resolve();
        arrived = Promise.withResolvers();
      });
    },
  });
  server.on('error', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.server.address() as AddressInfo;
  const settings: MailSettings = {
    url: `smtp://${LOGIN.user}:${LOGIN.pass}@127.0.0.1:${port}`,
    from: 'Slipway <noreply@example.com>',
  };
  return {
    settings,
    /** Path of a file with the server's URL, for the setting. */
    file: async () => {
      const file = path.join(await mkdtemp(path.join(tmpdir(), 'slipway-smtp-')), 'url');
      await writeFile(file, `${settings.url}\n`);
      return file;
    },
    /** Returns the next mail to `address` with this subject; waits for it. */
    next: async (address: string, subject: string): Promise<Received> => {
      const deadline = performance.now() + PATIENCE_MS;
      for (;;) {
        const box = boxes.get(address) ?? [];
        const index = box.findIndex((mail) => mail.subject === subject);
        if (index >= 0) return box.splice(index, 1)[0] as Received;
        if (performance.now() > deadline) throw new Error(`no mail "${subject}" came for ${address}`);
        await Promise.race([arrived.promise, new Promise((resolve) => setTimeout(resolve, 500).unref())]);
      }
    },
    /** Accepts no mail until it is called with false. */
    refuse: (value: boolean) => {
      isRefusing = value;
    },
    /** Returns the subjects of mails to `address` that no test has read. */
    subjects: (address: string) => (boxes.get(address) ?? []).map(({ subject }) => subject),
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

function parse(text: string): Received {
  const end = text.indexOf('\r\n\r\n');
  const headers = text.slice(0, end).replaceAll(/\r\n[ \t]+/g, ' ');
  const quoted = /content-transfer-encoding: quoted-printable/i.test(headers);
  const body = quoted ? unquoted(text.slice(end + 4)) : text.slice(end + 4);
  const link = /https?:\/\/\S+#\S+/.exec(body)?.[0] ?? '';
  return {
    subject: /^subject: (.*)$/im.exec(headers)?.[1] ?? '',
    headers,
    text: body,
    link,
    token: /=([\w-]+)$/.exec(link)?.[1] ?? '',
  };
}

const unquoted = (text: string) =>
  text
    .replaceAll(/=\r\n/g, '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
