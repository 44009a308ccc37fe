/** Administration of accounts and invitations. Called by the controller, which has checked the scope. */

import { Injectable } from '@nestjs/common';
import { normalAddress } from '@slipway/crds';
import { type InvitationRow, InvitationsRepository, MOST_INVITATIONS } from '../accounts/invitations.repository.js';
import { hashOfCode, newInvitationCode } from '../accounts/registration.service.js';
import type { Principal } from '../callers/principal.js';
import { missing, Problem } from '../http/problem.js';
import { Kubernetes } from '../kubernetes/client.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { type AccountRow, AccountsAdministrationRepository, inUse } from './accounts-administration.repository.js';
import {
  type AccountChange,
  type AccountQuery,
  type AdministeredAccount,
  type CreatedInvitation,
  INVITATION_SECONDS,
  type Invitation,
  type NewInvitation,
} from './administration.schema.js';

@Injectable()
export class AdministrationService {
  constructor(
    private readonly accounts: AccountsAdministrationRepository,
    private readonly invitations: InvitationsRepository,
    private readonly kubernetes: Kubernetes,
    private readonly mail: AccountMail,
  ) {}

  async list(query: AccountQuery): Promise<AdministeredAccount[]> {
    return (await this.accounts.list(query)).map(shown);
  }

  async read(id: number): Promise<AdministeredAccount> {
    return shown(await this.accounts.one(id));
  }

  async change(caller: Principal, id: number, change: AccountChange): Promise<AdministeredAccount> {
    const changed = await this.accounts.change(caller.user.id, id, change);
    if (change.administrator) this.mail.post(changed.email, letters.administrator(this.mail.publicUrl));
    return shown(changed);
  }

  async remove(caller: Principal, id: number): Promise<void> {
    const { email, projects } = await this.accounts.one(id);
    if (projects > 0) throw inUse(`${projects} projects`);
    const named = (await this.kubernetes.retainedNamespaces()).filter(({ owner }) => normalAddress(owner) === email);
    // Data retained in a shared Postgres has no namespace. So its record stays until an administrator confirms the
    // removal.
    const retained = new Set([...named.map(({ ref }) => ref), ...(await this.accounts.retainedRefs(id))]);
    if (retained.size > 0)
      throw inUse(`retained data of ${retained.size} deleted projects (${[...retained].join(', ')})`);
    await this.accounts.remove(caller.user.id, id);
  }

  async listInvitations(): Promise<Invitation[]> {
    return (await this.invitations.list()).map(shownInvitation);
  }

  async invite(
    caller: Principal,
    { email, expires_in = INVITATION_SECONDS }: NewInvitation,
  ): Promise<CreatedInvitation> {
    const code = newInvitationCode();
    const address = email === undefined ? null : normalAddress(email);
    const row = await this.invitations.add(caller.user.id, hashOfCode(code), address, expires_in);
    if (!row) {
      const detail = `There are ${MOST_INVITATIONS} invitations. Revoke some with DELETE /admin/invitations/{id}.`;
      throw new Problem('conflict', detail);
    }
    if (address !== null) this.mail.post(address, letters.invitation(this.mail.publicUrl, code));
    return { ...shownInvitation(row), code };
  }

  async revokeInvitation(id: number): Promise<void> {
    if (!(await this.invitations.remove(id))) throw missing('invitation');
  }
}

const time = (at: Date | string) => new Date(at).toISOString();

const shown = ({ is_administrator, disabled_at, created_at, ...row }: AccountRow) =>
  ({
    ...row,
    administrator: is_administrator,
    disabled_at: disabled_at && time(disabled_at),
    created_at: time(created_at),
  }) as AdministeredAccount;

const shownInvitation = (row: InvitationRow): Invitation => ({
  id: row.id,
  email: row.email,
  created_at: time(row.created_at),
  expires_at: time(row.expires_at),
  used_at: row.used_at && time(row.used_at),
});
