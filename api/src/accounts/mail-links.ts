/**
 * Mails links to accounts. The links lead to the configured address of the platform, whatever a request's headers say,
 * and carry their token after `#`, which no server and no other site sees.
 */
import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { type MailPurpose, MailTokensRepository } from './mail-tokens.repository.js';
import { RateLimit } from './rate-limit.js';
import { UsersRepository } from './users.repository.js';

/** The page that a link opens. */
export const LINK_PAGE = '/auth/link';

@Injectable()
export class MailLinks {
  /**
   * Links of one account to one address. Those that were sent before stay good, so that nobody uses them up for
   * another.
   */
  private readonly toOne = new RateLimit(5, 0.2);

  constructor(
    private readonly mail: AccountMail,
    private readonly tokens: MailTokensRepository,
    private readonly users: UsersRepository,
  ) {}

  requireMail(): void {
    if (this.mail.isConfigured) return;
    throw new Problem('mail_not_configured', 'This installation sends no mail. Ask an administrator of it instead.');
  }

  /** To the account's address, or to the one that it is to have. */
  mailVerification(userId: number, address: string): void {
    this.mail.later(async () => {
      const holder = await this.users.byEmail(address);
      if (holder && holder.id !== userId) return;
      await this.send(userId, 'verify', address);
    });
  }

  /** Whether or not there is such an account: the response was sent before. */
  mailReset(email: string): void {
    this.mail.later(async () => {
      const user = await this.users.byEmail(email);
      if (user && !user.disabledAt) await this.send(user.id, 'reset', email);
    });
  }

  private async send(userId: number, purpose: MailPurpose, address: string): Promise<void> {
    if (this.toOne.take(`${purpose} ${userId} ${address}`) > 0) return;
    const token = await this.tokens.add(userId, purpose, address);
    const { publicUrl } = this.mail;
    await this.mail.send('link', address, letters[purpose](publicUrl, `${publicUrl}${LINK_PAGE}#${purpose}=${token}`));
  }
}
