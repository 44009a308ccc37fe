import { Module } from '@nestjs/common';
import { AccountsController } from './accounts.controller.js';
import { AccountsService } from './accounts.service.js';
import { Passwords } from './passwords.js';
import { UserTokens } from './user-tokens.js';
import { UsersRepository } from './users.repository.js';

@Module({
  controllers: [AccountsController],
  providers: [AccountsService, Passwords, UserTokens, UsersRepository],
  exports: [UserTokens, UsersRepository],
})
export class AccountsModule {}
