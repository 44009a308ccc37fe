import { Global, Module } from '@nestjs/common';
import { AccountMail } from './account-mail.js';

@Global()
@Module({ providers: [AccountMail], exports: [AccountMail] })
export class MailModule {}
