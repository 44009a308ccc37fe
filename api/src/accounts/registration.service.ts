/**
 * Registers accounts by the installation's setting. In: the body of POST /auth/register and the caller's address. Out:
 * the new account's session, or a refusal. A refusal is the same whether or not the address has an account, unless
 * registration is open to everybody.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';
import { normalEmail, type Registration, type RegistrationState, type Session } from './account.schema.js';
import { AccountsService } from './accounts.service.js';
import { InvitationsRepository } from './invitations.repository.js';
import { MailLinks } from './mail-links.js';
import type { Origin } from './origin.js';
import { Passwords } from './passwords.js';
import { type Ground, RegistrationsRepository } from './registrations.repository.js';
import { SignInLimits } from './sign-in-limits.js';

/** How long an invitation is good that an address of a listed mail domain asked for. */
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
    const normal = normalEmail(email);
    const ground = await this.groundFor(normal, from.network, code);
    // Before the password is hashed, so that a refusal costs little and takes equally long for every address.
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
   * Shows that the address is the caller's. After the response, whose time is the same whether or not the address has
   * an account.
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
    if (setupCode && timingSafeEqual(hash, hashOfCode(setupCode))) {
      return (await this.registrations.hasNoAdministrator()) ? { kind: 'setup' } : undefined;
    }
    return (await this.registrations.isUsable(hash, email)) ? { kind: 'invitation', hash } : undefined;
  }

  /** Without a code, only where nobody but this machine can have come first. */
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

/** The same for an address that has an account, to which nothing is mailed. */
const codeMailed = () =>
  new Problem(
    'registration_code_mailed',
    'A code is mailed to this address, unless it has an account. Send the registration again with it as `code`.',
  );
