/** Providers that every feature may inject, created before Nest: settings, log, database, cluster. */
import { MikroORM } from '@mikro-orm/postgresql';
import { type DynamicModule, Module } from '@nestjs/common';
import type { Logger } from 'pino';
import { RequestLimits } from './http/request-limits.js';
import { Kubernetes } from './kubernetes/client.js';
import { ProjectCache } from './kubernetes/project-cache.js';
import { LOG, SETTINGS } from './settings/injected.js';
import type { ApiSettings } from './settings/settings.js';

export interface Platform {
  settings: ApiSettings;
  log: Logger;
  orm: MikroORM;
  kubernetes: Kubernetes;
  cache: ProjectCache;
  limits: RequestLimits;
}

@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a dynamic module of Nest is a class with a static maker.
export class PlatformModule {
  static of({ settings, log, orm, kubernetes, cache, limits }: Platform): DynamicModule {
    const providers = [
      { provide: SETTINGS, useValue: settings },
      { provide: LOG, useValue: log },
      { provide: MikroORM, useValue: orm },
      { provide: Kubernetes, useValue: kubernetes },
      { provide: ProjectCache, useValue: cache },
      { provide: RequestLimits, useValue: limits },
    ];
    return { module: PlatformModule, global: true, providers, exports: providers.map(({ provide }) => provide) };
  }
}
