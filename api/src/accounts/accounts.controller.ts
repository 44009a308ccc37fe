import { Body, Controller } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { EXAMPLES, Login, Me, Registration, RegistrationState, Session } from './account.schema.js';
import { AccountsService } from './accounts.service.js';
import { LostProjectsRepository } from './lost-projects.repository.js';
import { From, type Origin } from './origin.js';
import { RegistrationService } from './registration.service.js';

const TOO_MANY = { 429: 'Too many attempts from this address, or for this account.' };

@ApiTags('accounts')
@Controller()
export class AccountsController {
  constructor(
    private readonly accounts: AccountsService,
    private readonly registration: RegistrationService,
    private readonly lostProjects: LostProjectsRepository,
  ) {}

  @Route('GET', '/auth/registration', {
    summary: 'Read the registration policy',
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
    summary: 'Read the account of the token',
    access: 'account:read',
    answer: {
      status: 200,
      description: 'The account, and the projects that were taken from it.',
      schema: Me,
      example: EXAMPLES.me,
    },
  })
  async me(@Caller() { user }: Principal): Promise<Me> {
    return { ...user, lost_projects: await this.lostProjects.of(user.id) };
  }
}
