import { Body, Controller } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import {
  AddressChange,
  AddressChanged,
  Deletion,
  EXAMPLES,
  Forgotten,
  type LinkUse,
  PasswordChange,
  PasswordReset,
  Verification,
} from './life-cycle.schema.js';
import { LifeCycleService } from './life-cycle.service.js';
import { From, type Origin } from './origin.js';

const TOO_MANY = { 429: 'Too many attempts from this network, or for this account.' };
const WRONG_PASSWORD = { 401: 'No token was sent, it is not valid, or the password is wrong.' };
const INVALID_LINK = { 400: 'The token is not valid, was used or has expired; or a field is not valid.' };
const done = (description: string) => ({ status: 200, description, schema: OK, example: { ok: true } }) as const;

@ApiTags('accounts')
@Controller()
export class LifeCycleController {
  constructor(private readonly lifeCycle: LifeCycleService) {}

  @Route('POST', '/auth/password', {
    summary: 'Change the password',
    description: 'Ends all other sessions of the account. Personal access tokens stay valid.',
    access: 'user',
    body: PasswordChange,
    bodyExamples: { change: EXAMPLES.passwordChange },
    answer: done('The password is changed.'),
    problems: {
      ...WRONG_PASSWORD,
      409: { kind: 'conflict', text: 'Another request changed the password first.' },
      ...TOO_MANY,
    },
  })
  async changePassword(@Caller() caller: Principal, @Body() body: PasswordChange, @From() from: Origin): Promise<Ok> {
    await this.lifeCycle.changePassword(caller, body, from);
    return { ok: true };
  }

  @Route('POST', '/auth/password/forgot', {
    summary: 'Mail a link that sets a new password',
    description: 'The response is the same whether or not the address has an account.',
    access: 'none',
    body: Forgotten,
    bodyExamples: { forgotten: EXAMPLES.forgotten },
    answer: done('If the address has an account, a link was mailed to it. It works once, for an hour.'),
    problems: { 403: 'This installation sends no mail.', ...TOO_MANY },
  })
  async forgotPassword(@Body() { email }: Forgotten, @From() from: Origin): Promise<Ok> {
    this.lifeCycle.forgotPassword(email, from);
    return { ok: true };
  }

  @Route('POST', '/auth/password/reset', {
    summary: 'Set a new password by a mailed link',
    description: 'Ends all sessions, and verifies the address.',
    access: 'none',
    body: PasswordReset,
    bodyExamples: { reset: EXAMPLES.reset },
    answer: done('The password is changed. Log in with it.'),
    problems: { ...INVALID_LINK, ...TOO_MANY },
  })
  async resetPassword(@Body() body: LinkUse, @From() from: Origin): Promise<Ok> {
    await this.lifeCycle.resetPassword(body, from);
    return { ok: true };
  }

  @Route('POST', '/auth/verification', {
    summary: 'Mail the link that verifies the address again',
    access: 'user',
    answer: done('The link was mailed. It works once, for 24 hours.'),
    problems: { 403: 'This installation sends no mail; or the token is a personal access token.' },
  })
  async sendVerification(@Caller() caller: Principal): Promise<Ok> {
    this.lifeCycle.sendVerification(caller);
    return { ok: true };
  }

  @Route('POST', '/auth/verify', {
    summary: 'Verify an address by a mailed link',
    description: 'Requires the password of the account. A link to a new address makes it the address of the account.',
    access: 'none',
    body: Verification,
    bodyExamples: { verification: EXAMPLES.verification },
    answer: done('The address is verified.'),
    problems: {
      ...INVALID_LINK,
      401: 'The password is wrong.',
      409: {
        kind: 'email_taken',
        text: 'Another account has the address by now, or a project of the address has the name of one of yours.',
      },
      ...TOO_MANY,
    },
  })
  async verifyAddress(@Body() body: LinkUse, @From() from: Origin): Promise<Ok> {
    await this.lifeCycle.verify(body, from);
    return { ok: true };
  }

  @Route('POST', '/auth/email', {
    summary: 'Change the e-mail address',
    description:
      'Where the installation sends mail, a link is mailed to the new address, and a notice to the old one. ' +
      'Projects stay with the account.',
    access: 'user',
    cost: 10,
    body: AddressChange,
    bodyExamples: { change: EXAMPLES.addressChange },
    answer: {
      status: 200,
      description: 'The address is changed, or the link was mailed.',
      schema: AddressChanged,
      example: { changed: false },
    },
    problems: {
      ...WRONG_PASSWORD,
      409: {
        kind: 'email_taken',
        text: 'Another account has the address, or a project of the address has the name of one of yours.',
      },
      ...TOO_MANY,
    },
  })
  async changeAddress(
    @Caller() caller: Principal,
    @Body() body: AddressChange,
    @From() from: Origin,
  ): Promise<AddressChanged> {
    return { changed: await this.lifeCycle.changeAddress(caller, body, from) };
  }

  @Route('POST', '/auth/me/delete', {
    summary: 'Delete the account',
    description: 'Deletes its sessions and tokens too. A 409 while the account owns projects or retained data.',
    access: 'user',
    body: Deletion,
    bodyExamples: { deletion: EXAMPLES.deletion },
    answer: done('The account is deleted.'),
    problems: {
      ...WRONG_PASSWORD,
      409: {
        kind: 'account_in_use',
        text: 'The account owns projects or retained data, or is the last administrator.',
      },
      ...TOO_MANY,
    },
  })
  async deleteOwnAccount(
    @Caller() caller: Principal,
    @Body() { password }: Deletion,
    @From() from: Origin,
  ): Promise<Ok> {
    await this.lifeCycle.remove(caller, password, from);
    return { ok: true };
  }
}
