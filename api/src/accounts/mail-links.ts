/**
 * Mails links to accounts. The links use the configured URL of the platform, never a request's headers. Their token
 * follows `#` in the URL, so that no server and no other site sees it.
 */
import { Injectable } from '@nestjs/common';
import { TokenBuckets } from '@slipway/program';
import { Problem } from '../http/problem.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { type MailPurpose, MailTokensRepository } from './mail-tokens.repository.js';
import { UsersRepository } from './users.repository.js';

type LinkPurpose = Exclude<MailPurpose, 'sign-in'>;

/** URL of the page that a link opens. */
export const LINK_PAGE = '/auth/link';

@Injectable()
export class MailLinks {
  /**
   * Rate limit of links from one account to one address. Earlier links stay valid, so that a stranger's requests revoke
   * none.
   */
  private readonly toOne = new TokenBuckets({ burst: 5, perSecond: 0.2 / 60 });

  constructor(
    private readonly mail: AccountMail,
    private readonly tokens: MailTokensRepository,
    private readonly users: UsersRepository,
  ) {}

  requireMail(): void {
    if (this.mail.isConfigured) return;
    throw new Problem('mail_not_configured', 'This installation sends no mail. Ask an administrator instead.');
  }

  /** Mails a link that verifies `address`: the account's own, or the one it changes to. */
  mailVerification(userId: number, address: string): void {
    this.mail.later(async () => {
      const holder = await this.users.byEmail(address);
      if (holder && holder.id !== userId) return;
      await this.send(userId, 'verify', address);
    });
  }

  /** Mails a link that resets the password, if the address has an account. Runs after the response was sent. */
  mailReset(email: string): void {
    this.mail.later(async () => {
      const user = await this.users.byEmail(email);
      if (user && !user.disabledAt) await this.send(user.id, 'reset', email);
    });
  }

  private async send(userId: number, purpose: LinkPurpose, address: string): Promise<void> {
    if (this.toOne.of(`${purpose} ${userId} ${address}`).take() > 0) return;
    const token = await this.tokens.add(userId, purpose, address);
    const { publicUrl } = this.mail;
    await this.mail.send('link', address, letters[purpose](publicUrl, `${publicUrl}${LINK_PAGE}#${purpose}=${token}`));
  }
}
