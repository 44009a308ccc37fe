/**
 * Registers accounts by the installation's policy. In: the body of POST /auth/register and the caller's address. Out:
 * the new account's session, or an error. Unless registration is open to everybody, the error does not reveal whether
 * the address has an account.
 */

import { createHash, randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { normalAddress } from '@slipway/crds';
import { isSameSecret } from '@slipway/program';
import { Problem } from '../http/problem.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { type Registration, type RegistrationState, type Session } from './account.schema.js';
import { AccountsService } from './accounts.service.js';
import { InvitationsRepository } from './invitations.repository.js';
import { MailLinks } from './mail-links.js';
import type { Origin } from './origin.js';
import { Passwords } from './passwords.js';
import { type Ground, RegistrationsRepository } from './registrations.repository.js';
import { SignInLimits } from './sign-in-limits.js';

/** Lifetime in seconds of an invitation that an address of a listed mail domain requested. */
const REQUESTED_SECONDS = 24 * 3600;

export const newInvitationCode = () => `invite_${randomBytes(32).toString('base64url')}`;
export const hashOfCode = (code: string) => createHash('sha256').update(code).digest();

@Injectable()
export class RegistrationService {
  constructor(
    private readonly accounts: AccountsService,
    private readonly registrations: RegistrationsRepository,
    private readonly passwords: Passwords,
    private readonly limits: SignInLimits,
    private readonly links: MailLinks,
    private readonly mail: AccountMail,
    private readonly invitations: InvitationsRepository,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  async register({ email, password, full_name, code }: Registration, from: Origin): Promise<Session> {
    this.limits.admit(from.network);
    const normal = normalAddress(email);
    const ground = await this.groundFor(normal, from.network, code);
    // Checked before the password is hashed, so that a rejection is cheap and equally fast for every address.
    if (!ground) throw refused();
    const fields = {
      email: normal,
      passwordHash: await this.passwords.hash(password, from.network),
      fullName: full_name ?? null,
    };
    const user = await this.registrations.add(fields, ground);
    if (!user) throw refused();
    this.links.mailVerification(user.id, user.email);
    return this.accounts.session(user, from);
  }

  async state(): Promise<RegistrationState> {
    const { mode } = this.settings.accounts.registration;
    const firstNeedsCode = !this.firstIsAdministrator() && (await this.registrations.hasNoAdministrator());
    return { registration: mode, setup_required: firstNeedsCode };
  }

  private async groundFor(email: string, network: string, code: string | undefined): Promise<Ground | undefined> {
    if (code !== undefined) return this.groundOfCode(email, code);
    const { registration } = this.settings.accounts;
    if (registration.mode === 'open') return { kind: 'open', firstIsAdministrator: this.firstIsAdministrator() };
    if (registration.mode !== 'domains') return undefined;
    const domain = email.slice(email.lastIndexOf('@') + 1);
    if (!this.mail.isConfigured || !registration.domains.includes(domain)) return undefined;
    this.mailInvitation(email, network);
    throw codeMailed();
  }

  /**
   * Mails a code that proves the address. Runs after the response, whose duration therefore does not reveal an account.
   */
  private mailInvitation(email: string, network: string): void {
    this.mail.later(async () => {
      const code = newInvitationCode();
      if (!(await this.invitations.addRequested(hashOfCode(code), email, network, REQUESTED_SECONDS))) return;
      await this.mail.send('link', email, letters.invitation(this.mail.publicUrl, code));
    });
  }

  private async groundOfCode(email: string, code: string): Promise<Ground | undefined> {
    const hash = hashOfCode(code);
    const setupCode = this.settings.accounts.setupCode();
    if (setupCode && isSameSecret(code, setupCode)) {
      return (await this.registrations.hasNoAdministrator()) ? { kind: 'setup' } : undefined;
    }
    return (await this.registrations.isUsable(hash, email)) ? { kind: 'invitation', hash } : undefined;
  }

  /** True if only this machine can reach the platform: the first account then needs no code. */
  private firstIsAdministrator(): boolean {
    const { registration, localOnly } = this.settings.accounts;
    return localOnly && registration.mode === 'open';
  }
}

const refused = () =>
  new Problem(
    'registration_refused',
    'Registration is not open for this address. Ask an administrator for an invitation, and send its code as `code`.',
  );

/** Returns the same error for an address that has an account, to which no code is mailed. */
const codeMailed = () =>
  new Problem(
    'registration_code_mailed',
    'A code is mailed to this address, unless it has an account. Send the registration again with it as `code`.',
  );
