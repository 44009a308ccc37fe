/** Changes a registered account: verifies its address, changes password and address, deletes it. */

import { Injectable } from '@nestjs/common';
import { normalAddress } from '@slipway/crds';
import type { Principal } from '../callers/principal.js';
import { invalid, Problem } from '../http/problem.js';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache } from '../kubernetes/project-cache.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { AccountsService } from './accounts.service.js';
import { accountInUse, LifeCycleRepository } from './life-cycle.repository.js';
import type { AddressChange, LinkUse, PasswordChange } from './life-cycle.schema.js';
import { MailLinks } from './mail-links.js';
import { MailTokensRepository } from './mail-tokens.repository.js';
import type { Origin } from './origin.js';
import { Passwords } from './passwords.js';
import { SignInLimits } from './sign-in-limits.js';

@Injectable()
export class LifeCycleService {
  constructor(
    private readonly accounts: AccountsService,
    private readonly repository: LifeCycleRepository,
    private readonly tokens: MailTokensRepository,
    private readonly links: MailLinks,
    private readonly passwords: Passwords,
    private readonly limits: SignInLimits,
    private readonly mail: AccountMail,
    private readonly cache: ProjectCache,
    private readonly kubernetes: Kubernetes,
  ) {}

  async changePassword(caller: Principal, change: PasswordChange, from: Origin): Promise<void> {
    const {
      id,
      email,
      passwordHash: known,
    } = await this.accounts.prove(caller.user.email, change.current_password, from);
    const next = await this.passwords.hash(change.password, from.network);
    if (!(await this.repository.changePassword(id, { known, next }, caller.sessionId))) throw changedMeanwhile();
    this.mail.post(email, letters.password(this.mail.publicUrl));
  }

  /** Mails a link if the address has an account. Every address gets the same response. */
  forgotPassword(email: string, { network }: Origin): void {
    this.links.requireMail();
    this.limits.admit(network);
    this.links.mailReset(normalAddress(email));
  }

  async resetPassword({ token, password }: LinkUse, { network }: Origin): Promise<void> {
    this.limits.admit(network);
    const mailToken = await this.tokens.find(token, 'reset');
    if (!mailToken || mailToken.address !== mailToken.email) throw invalidLink();
    const hash = await this.passwords.hash(password, network);
    if (!(await this.repository.resetPassword(mailToken, hash))) throw invalidLink();
    this.mail.post(mailToken.email, letters.password(this.mail.publicUrl));
    this.cache.announce();
  }

  sendVerification(caller: Principal): void {
    this.links.requireMail();
    this.links.mailVerification(caller.user.id, caller.user.email);
  }

  /** Requires the password: a victim who opens a mailed link must not verify an account that a stranger registered. */
  async verify({ token, password }: LinkUse, from: Origin): Promise<void> {
    this.limits.admit(from.network);
    const mailToken = await this.tokens.find(token, 'verify');
    if (!mailToken) throw invalidLink();
    await this.accounts.prove(mailToken.email, password, from);
    if (!(await this.repository.verify(mailToken))) throw invalidLink();
    if (mailToken.address !== mailToken.email)
      this.mail.post(mailToken.email, letters.addressChanged(this.mail.publicUrl, mailToken.address));
    this.cache.announce();
  }

  /** Returns true if the address is changed, false if it changes once the mailed link is used. */
  async changeAddress(caller: Principal, change: AddressChange, from: Origin): Promise<boolean> {
    const address = normalAddress(change.email);
    const { id, email } = await this.accounts.prove(caller.user.email, change.password, from);
    if (address === email) throw invalid('email', 'is the address of the account already');
    if (this.mail.isConfigured) {
      this.limits.admitMail(id, from.network);
      this.links.mailVerification(id, address);
      this.mail.post(email, letters.address(this.mail.publicUrl, address));
      return false;
    }
    await this.repository.changeAddress(id, address);
    this.cache.announce();
    return true;
  }

  async remove(caller: Principal, password: string, from: Origin): Promise<void> {
    const { id, email } = await this.accounts.prove(caller.user.email, password, from);
    const retained = await this.kubernetes.retainedNamespaces();
    if (retained.some(({ owner }) => normalAddress(owner) === email)) throw accountInUse();
    await this.repository.remove(id);
  }
}

const invalidLink = () =>
  new Problem('link_invalid', 'The link is not valid, was used or has expired. Request another one.', {
    errors: [{ field: 'token', message: 'is not valid, was used or has expired' }],
  });

const changedMeanwhile = () => new Problem('conflict', 'Another request changed the password first. Log in again.');
