/** Mailed codes that an account needs beside its password during a guessing attack. Each works once. */
import { Injectable } from '@nestjs/common';
import { TokenBuckets } from '@slipway/program';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { MailTokensRepository } from './mail-tokens.repository.js';

/** Length of a code in bytes. With the limits on attempts, 72 bits can't be guessed within 15 minutes. */
const CODE_BYTES = 9;

@Injectable()
export class SignInCodes {
  /** Limit on codes of one account. Earlier codes stay valid until they expire. */
  private readonly toOne = new TokenBuckets({ burst: 5, perSecond: 0.5 / 60 });

  constructor(
    private readonly mail: AccountMail,
    private readonly tokens: MailTokensRepository,
  ) {}

  mailCode(userId: number, email: string): void {
    this.mail.later(async () => {
      if (this.toOne.of(String(userId)).take() > 0) return;
      const code = await this.tokens.add(userId, 'sign-in', email, CODE_BYTES);
      await this.mail.send('link', email, letters.signInCode(this.mail.publicUrl, code));
    });
  }

  use(userId: number, code: string): Promise<boolean> {
    return this.tokens.use(userId, code.trim(), 'sign-in');
  }
}
