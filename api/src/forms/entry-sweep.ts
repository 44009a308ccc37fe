/** Deletes entries that are older than the days for which their form keeps them: at start, and each hour. */
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type { Logger } from 'pino';
import { clockOf } from '../settings/clock.js';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { FormsRepository } from './forms.repository.js';

const EVERY_MS = 3_600_000;
const DELETED_AT_ONCE = 5_000;

@Injectable()
export class EntrySweep implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly now: () => Date;
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> = Promise.resolve();
  private closed = false;

  constructor(
    private readonly forms: FormsRepository,
    @Inject(SETTINGS) settings: ApiSettings,
    @Inject(LOG) private readonly log: Logger,
  ) {
    this.now = clockOf(settings);
  }

  onApplicationBootstrap(): void {
    this.timer = setInterval(() => this.begin(), EVERY_MS);
    this.begin();
  }

  async onApplicationShutdown(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    await this.running;
  }

  private begin(): void {
    this.running = this.running
      .then(() => this.sweep())
      .catch((error: unknown) => this.log.warn({ err: error }, 'old entries of forms not deleted; tried in an hour'));
  }

  private async sweep(): Promise<void> {
    while (!this.closed && (await this.forms.removeExpired(this.now(), DELETED_AT_ONCE)));
  }
}
