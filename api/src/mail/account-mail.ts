/**
 * Sends mails to accounts outside of requests, so that the time of a response reveals nothing about an account. In: an
 * address and a letter. The number of mails in flight, of waiting mails and of mails to one address is limited. Without
 * an SMTP server, nothing is sent.
 */
import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { ConcurrencyLimit, isLoopback, TokenBuckets } from '@slipway/program';
import { createTransport } from 'nodemailer';
import type { Logger } from 'pino';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import type { Letter } from './letters.js';

/** Limits of mails that are sent at once, and of waiting mails, for all accounts together. */
const BOUNDS = { most: 4, waiting: 500 };
const TIMEOUT_MS = 10_000;
/**
 * Maximum milliseconds for one mail. Without this limit, a slow server that keeps sending something would never time
 * out.
 */
const PATIENCE_MS = 30_000;
const LONGEST_CLOSE_MS = 10_000;

@Injectable()
export class AccountMail implements OnApplicationShutdown {
  private readonly limit = new ConcurrencyLimit(BOUNDS);
  private readonly closed = new AbortController();
  /** Links have a limit of their own, so that a stranger's requests for links block no notices. */
  private readonly toOne = {
    link: new TokenBuckets({ burst: 20, perSecond: 0.5 / 60 }),
    notice: new TokenBuckets({ burst: 30, perSecond: 0.5 / 60 }),
  };
  readonly isConfigured: boolean;
  /** The configured URL of the platform, for mails and their links. A request's headers never change it. */
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

  /** Runs work that may send a mail, such as creating the token of a link. */
  later(work: () => Promise<void>): void {
    if (!this.isConfigured) return;
    if (this.limit.isFull('')) {
      this.log.warn('mail dropped: too many are waiting');
      return;
    }
    const { signal } = this.closed;
    this.limit.run('', work, signal).catch((error: unknown) => {
      if (error === signal.reason) return;
      // Only the code is logged, as the server's text may quote the address.
      this.log.warn({ reason: (error as { code?: unknown }).code }, 'mail not sent');
    });
  }

  async send(kind: 'link' | 'notice', to: string, letter: Letter): Promise<void> {
    if (this.toOne[kind].of(to).take() > 0) {
      this.log.warn({ subject: letter.subject }, 'mail dropped: too many for one address');
      return;
    }
    await this.deliver(to, letter);
  }

  /** Sends a mail that the caller limits. Fails if the server did not accept it. Without a server, nothing is sent. */
  async deliver(to: string, { subject, text }: Letter): Promise<void> {
    if (!this.settings.mail) return;
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
    this.closed.abort();
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = setTimeout(resolve, LONGEST_CLOSE_MS);
    await Promise.race([this.limit.idle(), promise]);
    clearTimeout(late);
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
    // A login is never sent in clear text over the network.
    requireTLS: !secure && auth !== '' && !isThisMachine(host),
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

const isThisMachine = (host: string) => host === 'localhost' || isLoopback(host);
