/** Deletes sessions and mailed links that have expired, at start and each hour. */
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type { Logger } from 'pino';
import { LOG } from '../platform.js';
import { SessionsRepository } from './sessions.repository.js';

const EVERY_MS = 3_600_000;

@Injectable()
export class SessionUpkeep implements OnApplicationBootstrap, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;

  constructor(
    private readonly sessions: SessionsRepository,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  onApplicationBootstrap(): void {
    this.timer = setInterval(() => this.clean(), EVERY_MS);
    this.clean();
  }

  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    await this.running;
  }

  private clean(): void {
    this.running ??= this.sessions
      .removeExpired()
      .catch((error: unknown) => this.log.warn({ err: error }, 'expired sessions not deleted; tried again in an hour'))
      .finally(() => {
        this.running = undefined;
      });
  }
}
