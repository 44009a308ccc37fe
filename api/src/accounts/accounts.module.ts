import { Module } from '@nestjs/common';
import { AccountsController } from './accounts.controller.js';
import { AccountsService } from './accounts.service.js';
import { InvitationsRepository } from './invitations.repository.js';
import { LifeCycleController } from './life-cycle.controller.js';
import { LifeCycleRepository } from './life-cycle.repository.js';
import { LifeCycleService } from './life-cycle.service.js';
import { LostProjectsRepository } from './lost-projects.repository.js';
import { MailLinks } from './mail-links.js';
import { MailTokensRepository } from './mail-tokens.repository.js';
import { Passwords } from './passwords.js';
import { RegistrationService } from './registration.service.js';
import { RegistrationsRepository } from './registrations.repository.js';
import { SessionUpkeep } from './session-upkeep.js';
import { SessionsController } from './sessions.controller.js';
import { SessionsRepository } from './sessions.repository.js';
import { SignInCodes } from './sign-in-codes.js';
import { SignInLimits } from './sign-in-limits.js';
import { UserTokens } from './user-tokens.js';
import { UsersRepository } from './users.repository.js';

@Module({
  controllers: [AccountsController, LifeCycleController, SessionsController],
  providers: [
    InvitationsRepository,
    AccountsService,
    LifeCycleService,
    LifeCycleRepository,
    LostProjectsRepository,
    MailLinks,
    MailTokensRepository,
    Passwords,
    RegistrationService,
    RegistrationsRepository,
    SessionUpkeep,
    SessionsRepository,
    SignInCodes,
    SignInLimits,
    UserTokens,
    UsersRepository,
  ],
  exports: [InvitationsRepository, SessionsRepository, UserTokens, UsersRepository],
})
export class AccountsModule {}
