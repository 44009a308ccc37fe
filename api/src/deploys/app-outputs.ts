/** Reads the output of apps from a folder. In: a project's ref. Out: the newest output of its containers. */
import path from 'node:path';
import { Inject, Injectable } from '@nestjs/common';
import { AppLogs } from '@slipway/sites';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { EMPTY, type ReadableLog } from './log-texts.js';

@Injectable()
export class AppOutputs {
  private readonly logs: AppLogs | undefined;

  constructor(@Inject(SETTINGS) { buildsFolder }: ApiSettings) {
    this.logs = buildsFolder === undefined ? undefined : new AppLogs(path.join(buildsFolder, 'app-logs'));
  }

  of(ref: string): ReadableLog {
    const { logs } = this;
    if (!logs) return EMPTY;
    return { kept: () => logs.kept(ref), read: (position, most) => logs.read(ref, position, most) };
  }
}
