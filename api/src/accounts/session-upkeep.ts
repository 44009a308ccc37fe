/** Deletes expired sessions and mailed links, and old records of lost projects, at start and each hour. */
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type { Logger } from 'pino';
import { LOG } from '../settings/injected.js';
import { LostProjectsRepository } from './lost-projects.repository.js';
import { SessionsRepository } from './sessions.repository.js';

const EVERY_MS = 3_600_000;

@Injectable()
export class SessionUpkeep implements OnApplicationBootstrap, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;

  constructor(
    private readonly sessions: SessionsRepository,
    private readonly lostProjects: LostProjectsRepository,
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
    this.running ??= Promise.all([this.sessions.removeExpired(), this.lostProjects.removeOld()])
      .then(() => undefined)
      .catch((error: unknown) => this.log.warn({ err: error }, 'expired rows not deleted; tried again in an hour'))
      .finally(() => {
        this.running = undefined;
      });
  }
}
