import { Module } from '@nestjs/common';
import { Followers } from './followers.js';

@Module({ providers: [Followers], exports: [Followers] })
export class LiveModule {}
