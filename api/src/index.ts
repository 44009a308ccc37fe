/**
 * The management API: what people and programs ask over REST becomes Project resources in the Kubernetes API, and what
 * these say is shown. In: settings. Out: a server on a port or a Unix socket. Started by `main.ts`, and by tests.
 */
import 'reflect-metadata';
import { rm } from 'node:fs/promises';
import { Module } from '@nestjs/common';
import { NestFactory, Reflector } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { FastifyInstance } from 'fastify';
import { type Logger, pino } from 'pino';
import { AccessModule } from './access/access.module.js';
import { AccountsModule } from './accounts/accounts.module.js';
import { serveLinkPage } from './accounts/link-page.js';
import { AdministrationModule } from './administration/administration.module.js';
import { openPlatformDatabase } from './database/platform-database.js';
import { DiscoveryModule } from './discovery/discovery.module.js';
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
import { Kubernetes, kubeConfig } from './kubernetes/client.js';
import { ProjectCache } from './kubernetes/project-cache.js';
import { MailModule } from './mail/mail.module.js';
import { McpModule } from './mcp/mcp.module.js';
import { type Platform, PlatformModule } from './platform.js';
import { ProjectsModule } from './projects/projects.module.js';
import { QueryModule } from './query/query.module.js';
import type { ApiSettings } from './settings.js';
import { TokensModule } from './tokens/tokens.module.js';

export type { ApiSettings } from './settings.js';
export { settingsFromEnvironment } from './settings.js';

@Module({})
class AppModule {}

export async function startApi(settings: ApiSettings): Promise<{ close(): Promise<void> }> {
  const log = pino({ level: settings.logLevel, base: { program: 'api' }, redact: REDACTED });
  const orm = await openPlatformDatabase(settings.databaseUrl, log);
  const config = kubeConfig(settings.kubeconfig);
  const kubernetes = new Kubernetes(config);
  const cache = new ProjectCache(kubernetes, log);
  try {
    await cache.start();
    const limits = new RequestLimits(settings.requestLimits);
    const app = await serve({ settings, log, orm, kubernetes, cache, limits });
    log.info({ listen: settings.listen }, 'the API serves');
    return { close: () => closeAll([() => app.close(), () => cache.stop(), () => orm.close(), () => config.close()]) };
  } catch (error) {
    await closeAll([() => cache.stop(), () => orm.close(true), () => config.close()]);
    throw error;
  }
}

/** A second line of defence: nothing logs these on purpose. */
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
    AccessModule,
    AccountsModule,
    TokensModule,
    AdministrationModule,
    ProjectsModule,
    QueryModule,
    FunctionsModule,
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
  if (socket) await rm(socket, { force: true });
  await fastify.listen(listenAt(settings.listen));
  return app;
}

const EXPOSED = ['Link', 'X-Total-Count', 'X-Request-Id', 'Retry-After', 'WWW-Authenticate'];

/** `host:port` has a number at its end; a path of a socket has a slash. */
const socketPath = (listen: string) => (listen.includes('/') ? listen : undefined);

function listenAt(listen: string): { path: string } | { port: number; host: string } {
  if (socketPath(listen)) return { path: listen };
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(listen) ?? [];
  if (!host) throw new Error('SLIPWAY_LISTEN must be host:port, or the path of a Unix socket');
  return { port: Number(port), host: host.replace(/^\[|\]$/g, '') };
}

const nestLogger = (log: Logger) => ({
  log: (message: unknown) => log.debug(String(message)),
  warn: (message: unknown) => log.warn(String(message)),
  error: (message: unknown) => log.error(String(message)),
});

async function closeAll(closings: (() => Promise<unknown>)[]): Promise<void> {
  for (const close of closings) await close();
}
