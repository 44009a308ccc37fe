import { Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { AccountsModule } from '../accounts/accounts.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { AccessGuard } from './access-guard.js';
import { BearerStrategy } from './bearer.strategy.js';

@Module({
  imports: [AccountsModule, TokensModule],
  providers: [BearerStrategy, { provide: APP_GUARD, useClass: AccessGuard }],
})
export class AccessModule {}
