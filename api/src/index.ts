/**
 * Management API. Turns REST requests into Project resources in the Kubernetes API, and shows their state. In:
 * settings. Out: a server on a port or a Unix socket. Started by `main.ts` and by tests.
 */
import 'reflect-metadata';
import { rm } from 'node:fs/promises';
import { Module } from '@nestjs/common';
import { NestFactory, Reflector } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { listenOptions } from '@slipway/program';
import type { FastifyInstance } from 'fastify';
import { type Logger, pino } from 'pino';
import { AccessModule } from './access/access.module.js';
import { AccountsModule } from './accounts/accounts.module.js';
import { serveLinkPage } from './accounts/link-page.js';
import { AdministrationModule } from './administration/administration.module.js';
import { ConfigModule } from './config/config.module.js';
import { openPlatformDatabase } from './database/platform-database.js';
import { DeploysModule } from './deploys/deploys.module.js';
import { DiscoveryModule } from './discovery/discovery.module.js';
import { FormsModule } from './forms/forms.module.js';
import { FunctionsModule } from './functions/functions.module.js';
import { HealthModule } from './health/health.module.js';
import { HealthService } from './health/health.service.js';
import { serveProbes } from './health/probes.js';
import { fastifyAdapter } from './http/adapter.js';
import { allowedOrigins, refuseForeignPages } from './http/foreign-pages.js';
import { startMetrics } from './http/metrics.js';
import { serveOpenApi } from './http/openapi.js';
import { ProblemFilter } from './http/problem-filter.js';
import { RequestLimits } from './http/request-limits.js';
import { RouteInterceptor } from './http/route-interceptor.js';
import { connect, Kubernetes } from './kubernetes/client.js';
import { ProjectCache } from './kubernetes/project-cache.js';
import { LogsModule } from './logs/logs.module.js';
import { MailModule } from './mail/mail.module.js';
import { McpModule } from './mcp/mcp.module.js';
import { NotificationsModule } from './notifications/notifications.module.js';
import { OutboxModule } from './outbox/outbox.module.js';
import { type Platform, PlatformModule } from './platform.js';
import { ProjectsModule } from './projects/projects.module.js';
import { QueryModule } from './query/query.module.js';
import type { ApiSettings } from './settings/settings.js';
import { TokensModule } from './tokens/tokens.module.js';

export type { ApiSettings } from './settings/settings.js';
export { settingsFromEnvironment } from './settings/settings.js';

@Module({})
class AppModule {}

export async function startApi(settings: ApiSettings): Promise<{ close(): Promise<void> }> {
  const log = pino({ level: settings.logLevel, base: { program: 'api' }, redact: REDACTED });
  const orm = await openPlatformDatabase(settings.databaseUrl, log);
  const client = await connect(settings.kubeconfig);
  const kubernetes = new Kubernetes(client);
  const cache = new ProjectCache(client, log);
  try {
    await cache.start();
    const limits = new RequestLimits(settings.requestLimits);
    const app = await serve({ settings, log, orm, kubernetes, cache, limits });
    log.info({ listen: settings.listen }, 'the API serves');
    return { close: () => closeAll([() => app.close(), () => cache.stop(), () => orm.close(), () => client.close()]) };
  } catch (error) {
    await closeAll([() => cache.stop(), () => orm.close(true), () => client.close()]);
    throw error;
  }
}

/** Fields that the logger redacts, as a second line of defence: no code logs them on purpose. */
const REDACTED = [
  '*.password',
  '*.token',
  '*.authorization',
  '*.headers',
  '*.secret',
  'err.parameters',
  'err.query',
  'err.body',
  '*.cause.body',
];

async function serve(platform: Platform): Promise<NestFastifyApplication> {
  const { settings, log, limits } = platform;
  const socket = socketPath(settings.listen);
  const features = [
    MailModule,
    OutboxModule,
    AccessModule,
    AccountsModule,
    TokensModule,
    AdministrationModule,
    ProjectsModule,
    QueryModule,
    ConfigModule,
    LogsModule,
    FunctionsModule,
    DeploysModule,
    NotificationsModule,
    FormsModule,
    McpModule,
    DiscoveryModule,
    HealthModule,
  ];
  const root = { module: AppModule, imports: [PlatformModule.of(platform), ...features] };
  const app = await NestFactory.create<NestFastifyApplication>(
    root,
    fastifyAdapter(log, socket !== undefined || settings.site !== undefined, limits),
    {
      logger: nestLogger(log),
      bodyParser: false,
      abortOnError: false,
    },
  );
  try {
    await prepare(app, platform);
    if (socket) await rm(socket, { force: true });
    await app.getHttpAdapter().getInstance().listen(listenOptions(settings.listen));
  } catch (error) {
    await app.close();
    throw error;
  }
  return app;
}

async function prepare(app: NestFastifyApplication, { settings, log }: Platform): Promise<void> {
  app.useGlobalFilters(new ProblemFilter(log));
  app.useGlobalInterceptors(new RouteInterceptor(app.get(Reflector)));
  const origins = allowedOrigins(settings);
  app.enableCors({
    origin: [...origins],
    methods: ['GET', 'POST', 'PATCH', 'DELETE'],
    exposedHeaders: EXPOSED,
    maxAge: 600,
    strictPreflight: false,
  });
  serveOpenApi(app, settings.publicUrl);
  const fastify = app.getHttpAdapter().getInstance() as unknown as FastifyInstance;
  serveLinkPage(fastify);
  refuseForeignPages(fastify, origins);
  serveProbes(fastify, () => app.get(HealthService).isReady());
  if (settings.metricsListen) await startMetrics(fastify, settings.metricsListen);
  await app.init();
}

const EXPOSED = ['Link', 'X-Total-Count', 'X-Request-Id', 'Retry-After', 'WWW-Authenticate'];

/** Parses a listen address: `host:port` ends with a number, the path of a socket has a slash. */
const socketPath = (listen: string) => (listen.includes('/') ? listen : undefined);

const nestLogger = (log: Logger) => ({
  log: (message: unknown) => log.debug(String(message)),
  warn: (message: unknown) => log.warn(String(message)),
  error: (message: unknown) => log.error(String(message)),
});

async function closeAll(closings: (() => Promise<unknown>)[]): Promise<void> {
  for (const close of closings) await close();
}
