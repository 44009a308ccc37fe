/**
 * Mails to accounts, sent while no request waits, so that the time of a response tells nothing about an account. In: an
 * address and a letter. How many are in flight and waiting is bounded, and so is the number for one address. Where no
 * SMTP server is configured, nothing is sent.
 */
import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { createTransport } from 'nodemailer';
import type { Logger } from 'pino';
import { RateLimit } from '../accounts/rate-limit.js';
import { LOG, SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';
import type { Letter } from './letters.js';

const AT_ONCE = 4;
const MAY_WAIT = 500;
const TIMEOUT_MS = 10_000;
/** For one mail in all: a server that says a word now and then is never silent. */
const PATIENCE_MS = 30_000;
const LONGEST_CLOSE_MS = 10_000;

@Injectable()
export class AccountMail implements OnApplicationShutdown {
  private readonly waiting: (() => Promise<void>)[] = [];
  private readonly sending = new Set<Promise<void>>();
  /** Apart, so that links which a stranger asks for keep no notice from being sent. */
  private readonly toOne = { link: new RateLimit(20, 0.5), notice: new RateLimit(30, 0.5) };
  readonly isConfigured: boolean;
  /** The platform's address in mails and their links: the configured one, whatever a request's headers say. */
  readonly publicUrl: string;

  constructor(
    @Inject(SETTINGS) private readonly settings: ApiSettings,
    @Inject(LOG) private readonly log: Logger,
  ) {
    this.isConfigured = settings.mail !== undefined;
    this.publicUrl = settings.publicUrl;
  }

  post(to: string, letter: Letter): void {
    this.later(async () => this.send('notice', to, letter));
  }

  /** Work that ends in a mail, such as making the token that its link has. */
  later(work: () => Promise<void>): void {
    if (!this.isConfigured) return;
    if (this.waiting.length >= MAY_WAIT) {
      this.log.warn('mail dropped: too many are waiting');
      return;
    }
    this.waiting.push(work);
    this.next();
  }

  async send(kind: 'link' | 'notice', to: string, { subject, text }: Letter): Promise<void> {
    if (!this.settings.mail) return;
    if (this.toOne[kind].take(to) > 0) {
      this.log.warn({ subject }, 'mail dropped: too many for one address');
      return;
    }
    const transport = createTransport(transportOf(this.settings.mail.url));
    const late = setTimeout(() => transport.close(), PATIENCE_MS);
    try {
      const sent = transport.sendMail({ from: this.settings.mail.from, to: { name: '', address: to }, subject, text });
      await Promise.race([sent, rejectLate()]);
    } finally {
      clearTimeout(late);
      transport.close();
    }
  }

  async onApplicationShutdown(): Promise<void> {
    this.waiting.length = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = setTimeout(resolve, LONGEST_CLOSE_MS);
    await Promise.race([Promise.all(this.sending), promise]);
    clearTimeout(late);
  }

  private next(): void {
    const work = this.sending.size < AT_ONCE ? this.waiting.shift() : undefined;
    if (!work) return;
    const sent: Promise<void> = work()
      // The server's words may quote the address: its code is enough.
      .catch((error: unknown) => this.log.warn({ reason: (error as { code?: unknown }).code }, 'mail not sent'))
      .finally(() => {
        this.sending.delete(sent);
        this.next();
      });
    this.sending.add(sent);
    this.next();
  }
}

function rejectLate(): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(Object.assign(new Error('too slow'), { code: 'ETIMEDOUT' })), PATIENCE_MS).unref();
  });
}

function transportOf(text: string) {
  const url = new URL(text);
  const secure = url.protocol === 'smtps:';
  const auth = url.username && { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) };
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return {
    host,
    port: Number(url.port || (secure ? 465 : 587)),
    secure,
    ...(auth ? { auth } : {}),
    // A login never goes over the network in the clear.
    requireTLS: !secure && auth !== '' && !isLoopback(host),
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

const isLoopback = (host: string) => host === 'localhost' || host === '::1' || host.startsWith('127.');
