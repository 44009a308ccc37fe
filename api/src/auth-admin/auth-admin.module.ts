import { Module } from '@nestjs/common';
import { AuthAdmin } from './auth-admin.js';

@Module({ providers: [AuthAdmin], exports: [AuthAdmin] })
export class AuthAdminModule {}
