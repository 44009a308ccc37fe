import { Body, Controller } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../access/caller.js';
import type { Principal } from '../access/principal.js';
import { Route } from '../http/route.js';
import { Account, EXAMPLES, Login, Registration, RegistrationState, Session } from './account.schema.js';
import { AccountsService } from './accounts.service.js';
import { From, type Origin } from './origin.js';
import { RegistrationService } from './registration.service.js';

const TOO_MANY = { 429: 'Too many attempts from this address, or for this account.' };

@ApiTags('accounts')
@Controller()
export class AccountsController {
  constructor(
    private readonly accounts: AccountsService,
    private readonly registration: RegistrationService,
  ) {}

  @Route('GET', '/auth/registration', {
    summary: 'Who may register',
    access: 'none',
    answer: {
      status: 200,
      description: 'The setting of the installation.',
      schema: RegistrationState,
      example: EXAMPLES.registrationState,
    },
  })
  readRegistration(): Promise<RegistrationState> {
    return this.registration.state();
  }

  @Route('POST', '/auth/register', {
    summary: 'Register an account',
    access: 'none',
    body: Registration,
    bodyExamples: { account: EXAMPLES.registration, invited: EXAMPLES.invited },
    answer: { status: 201, description: 'The account and a user token.', schema: Session, example: EXAMPLES.session },
    problems: {
      403: {
        kind: 'registration_refused',
        text: 'Registration is not open for this address, or the code is not valid.',
      },
      409: { kind: 'email_taken', text: 'The e-mail address belongs to an account.' },
      ...TOO_MANY,
    },
  })
  register(@Body() body: Registration, @From() from: Origin): Promise<Session> {
    return this.registration.register(body, from);
  }

  @Route('POST', '/auth/login', {
    summary: 'Log in',
    access: 'none',
    body: Login,
    bodyExamples: { account: EXAMPLES.login },
    answer: { status: 200, description: 'The account and a user token.', schema: Session, example: EXAMPLES.session },
    problems: { 401: 'The e-mail address or the password is wrong.', 403: 'The account is disabled.', ...TOO_MANY },
  })
  login(@Body() body: Login, @From() from: Origin): Promise<Session> {
    return this.accounts.logIn(body, from);
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
