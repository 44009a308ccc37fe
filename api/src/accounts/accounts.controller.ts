import { Body, Controller, Ip } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../access/caller.js';
import type { Principal } from '../access/principal.js';
import { Route } from '../http/route.js';
import { Account, EXAMPLES, Login, Registration, Session } from './account.schema.js';
import { AccountsService } from './accounts.service.js';

const TOO_MANY = { 429: 'Too many attempts from this address, or for this account.' };

@ApiTags('accounts')
@Controller()
export class AccountsController {
  constructor(private readonly accounts: AccountsService) {}

  @Route('POST', '/auth/register', {
    summary: 'Register an account',
    access: 'none',
    body: Registration,
    bodyExamples: { account: EXAMPLES.registration },
    answer: { status: 201, description: 'The account and a user token.', schema: Session, example: EXAMPLES.session },
    problems: { 409: 'The e-mail address belongs to an account.', ...TOO_MANY },
  })
  register(@Body() body: Registration, @Ip() address: string): Promise<Session> {
    return this.accounts.register(body, address);
  }

  @Route('POST', '/auth/login', {
    summary: 'Log in',
    access: 'none',
    body: Login,
    bodyExamples: { account: EXAMPLES.login },
    answer: { status: 200, description: 'The account and a user token.', schema: Session, example: EXAMPLES.session },
    problems: { 401: 'The e-mail address or the password is wrong.', ...TOO_MANY },
  })
  login(@Body() body: Login, @Ip() address: string): Promise<Session> {
    return this.accounts.logIn(body, address);
  }

  @Route('GET', '/auth/me', {
    summary: 'Who the token belongs to',
    access: 'account:read',
    answer: { status: 200, description: 'The account.', schema: Account, example: EXAMPLES.account },
  })
  me(@Caller() caller: Principal): Account {
    return caller.user;
  }
}
