import { Module } from '@nestjs/common';
import { AccountsModule } from '../accounts/accounts.module.js';
import { MailModule } from '../mail/mail.module.js';
import { AccountsAdministrationRepository } from './accounts-administration.repository.js';
import { AdministrationController } from './administration.controller.js';
import { AdministrationService } from './administration.service.js';

@Module({
  controllers: [AdministrationController],
  imports: [AccountsModule, MailModule],
  providers: [AdministrationService, AccountsAdministrationRepository],
})
export class AdministrationModule {}
