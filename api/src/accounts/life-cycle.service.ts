/**
 * The life of an account after it was registered: its address is verified, password and address change, and it is
 * deleted.
 */
import { Injectable } from '@nestjs/common';
import type { Principal } from '../access/principal.js';
import { invalid, Problem } from '../http/problem.js';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache } from '../kubernetes/project-cache.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { normalEmail } from './account.schema.js';
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

  /** Answers alike for every address. */
  forgotPassword(email: string, { network }: Origin): void {
    this.links.requireMail();
    this.limits.admit(network);
    this.links.mailReset(normalEmail(email));
  }

  async resetPassword({ token, password }: LinkUse, { network }: Origin): Promise<void> {
    this.limits.admit(network);
    const found = await this.tokens.find(token, 'reset');
    if (!found || found.address !== found.email) throw invalidLink();
    const hash = await this.passwords.hash(password, network);
    if (!(await this.repository.resetPassword(found, hash))) throw invalidLink();
    this.mail.post(found.email, letters.password(this.mail.publicUrl));
    this.cache.announce();
  }

  sendVerification(caller: Principal): void {
    this.links.requireMail();
    this.links.mailVerification(caller.user.id, caller.user.email);
  }

  /** With the password: who reads a mail that a stranger caused must not confirm the stranger's account. */
  async verify({ token, password }: LinkUse, from: Origin): Promise<void> {
    this.limits.admit(from.network);
    const found = await this.tokens.find(token, 'verify');
    if (!found) throw invalidLink();
    await this.accounts.prove(found.email, password, from);
    if (!(await this.repository.verify(found))) throw invalidLink();
    if (found.address !== found.email)
      this.mail.post(found.email, letters.addressChanged(this.mail.publicUrl, found.address));
    this.cache.announce();
  }

  /** True: it is changed; false: it will be, once the link is used that was mailed to it. */
  async changeAddress(caller: Principal, change: AddressChange, from: Origin): Promise<boolean> {
    const address = normalEmail(change.email);
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
    if (retained.some(({ owner }) => normalEmail(owner) === email)) throw accountInUse();
    await this.repository.remove(id);
  }
}

const invalidLink = () =>
  new Problem('link_invalid', 'The link is not valid, was used already or has expired. Ask for another.', {
    errors: [{ field: 'token', message: 'is not valid, was used already or has expired' }],
  });

const changedMeanwhile = () => new Problem('conflict', 'The password was changed meanwhile. Log in again.');
