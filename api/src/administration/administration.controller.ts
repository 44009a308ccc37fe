import { Body, Controller, Param, Query } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import {
  AccountChange,
  AccountId,
  AccountQuery,
  AdministeredAccount,
  CreatedInvitation,
  EXAMPLES,
  Invitation,
  InvitationId,
  NewInvitation,
} from './administration.schema.js';
import { AdministrationService } from './administration.service.js';

const MISSING = { 404: 'There is no such account.' };

@ApiTags('administration')
@Controller()
export class AdministrationController {
  constructor(private readonly administration: AdministrationService) {}

  @Route('GET', '/admin/accounts', {
    summary: 'List accounts',
    description: 'Returns accounts in the order of their ids. The next page begins after the last id of this one.',
    access: 'admin:read',
    query: AccountQuery,
    answer: {
      status: 200,
      description: 'The accounts.',
      schema: Type.Array(AdministeredAccount),
      example: [EXAMPLES.account],
    },
  })
  listAccounts(@Query() query: AccountQuery): Promise<AdministeredAccount[]> {
    return this.administration.list(query);
  }

  @Route('GET', '/admin/accounts/{id}', {
    summary: 'Read an account',
    access: 'admin:read',
    params: AccountId,
    answer: { status: 200, description: 'The account.', schema: AdministeredAccount, example: EXAMPLES.account },
    problems: MISSING,
  })
  readAccount(@Param() { id }: AccountId): Promise<AdministeredAccount> {
    return this.administration.read(id);
  }

  @Route('PATCH', '/admin/accounts/{id}', {
    summary: 'Change an account',
    description:
      'Appoints administrators, disables accounts and sets their plans, types and limits. ' +
      'Existing projects stay as they are: a disabled account’s projects keep running, ' +
      'and their keys stay valid for MCP clients.',
    access: 'admin:write',
    params: AccountId,
    body: AccountChange,
    bodyExamples: { allowances: EXAMPLES.change, disable: EXAMPLES.disable },
    answer: { status: 200, description: 'The account.', schema: AdministeredAccount, example: EXAMPLES.account },
    problems: { ...MISSING, 409: { kind: 'last_administrator', text: 'No administrator would remain.' } },
  })
  changeAccount(
    @Caller() caller: Principal,
    @Param() { id }: AccountId,
    @Body() body: AccountChange,
  ): Promise<AdministeredAccount> {
    return this.administration.change(caller, id, body);
  }

  @Route('DELETE', '/admin/accounts/{id}', {
    summary: 'Delete an account',
    description: 'Deletes its tokens too. Only an account without projects and without retained data can be deleted.',
    access: 'admin:write',
    params: AccountId,
    answer: { status: 200, description: 'The account is deleted.', schema: OK, example: { ok: true } },
    problems: {
      ...MISSING,
      409: {
        kind: 'account_in_use',
        text: 'The account has projects or retained data, or no administrator would remain.',
      },
    },
  })
  async deleteAccount(@Caller() caller: Principal, @Param() { id }: AccountId): Promise<Ok> {
    await this.administration.remove(caller, id);
    return { ok: true };
  }

  @Route('GET', '/admin/invitations', {
    summary: 'List invitations',
    description: 'The newest first, without their codes.',
    access: 'admin:read',
    answer: {
      status: 200,
      description: 'The invitations, without those that were used or expired more than 30 days ago.',
      schema: Type.Array(Invitation),
      example: [EXAMPLES.invitation],
    },
  })
  listInvitations(): Promise<Invitation[]> {
    return this.administration.listInvitations();
  }

  @Route('POST', '/admin/invitations', {
    summary: 'Invite somebody',
    description: 'Registers one account, whatever the setting for registration is. Its code is shown this once.',
    access: 'admin:write',
    cost: 10,
    body: NewInvitation,
    bodyExamples: { bound: EXAMPLES.invite },
    answer: {
      status: 201,
      description: 'The invitation and its code.',
      schema: CreatedInvitation,
      example: EXAMPLES.created,
    },
    problems: { 409: { kind: 'conflict', text: 'There are 1000 invitations.' } },
    links: {
      revoke: { operationId: 'revokeInvitation', parameters: { id: '$response.body#/id' }, description: 'Revoke it.' },
    },
  })
  createInvitation(@Caller() caller: Principal, @Body() body: NewInvitation): Promise<CreatedInvitation> {
    return this.administration.invite(caller, body);
  }

  @Route('DELETE', '/admin/invitations/{id}', {
    summary: 'Revoke an invitation',
    access: 'admin:write',
    params: InvitationId,
    answer: { status: 200, description: 'The invitation is revoked.', schema: OK, example: { ok: true } },
    problems: { 404: 'There is no such invitation.' },
  })
  async revokeInvitation(@Param() { id }: Type.Static<typeof InvitationId>): Promise<Ok> {
    await this.administration.revokeInvitation(id);
    return { ok: true };
  }
}
