/**
 * One service of one project, on the project's own machine. In: the project's document, a file; requests as the
 * platform's gateway sends them to pods, from a proxy on this machine. Out: the service's responses. Keys and tokens
 * are checked here too. Started by main.ts, once for each service.
 */
import type { Server } from 'node:http';
import { connectionsOf, endRequests, listen } from '@slipway/program';
import { type Logger, pino } from 'pino';
import {
  connectFunctions,
  functionsOptionsOf,
  listenerOf,
  lookupsOf,
  realtimeOptionsOf,
  storageOptionsOf,
} from '../composition.js';
import { createGateway } from '../gateway/server.js';
import { ownerLogTo } from '../logs/owner-log.js';
import type { Service } from '../services/service.js';
import type { FunctionsSettings } from '../settings.js';
import { createManagement } from '../upstreams/management.js';
import { ProjectFile } from './project-file.js';
import type { UnitSettings } from './settings.js';

interface Created {
  service: Service;
  /** Functions alone: their environment has changed. */
  refresh?(ref: string): void;
  /** Functions alone: opens the control socket, and the way of their requests to the project's URL. */
  connect?(gateway: Server): Promise<{ close(): void }>;
}

export async function startUnit(settings: UnitSettings): Promise<{ url: string; close(): Promise<void> }> {
  const { unit, trustedProxies, rateLimit } = settings;
  const log = pino({ level: settings.logLevel });
  const project = new ProjectFile(settings.project, log);
  const { service, refresh, connect } = await createUnit(settings, log, project);
  const services = { [unit.service]: service };
  project.watch({ ...listenerOf(services, log), onEnvironment: (ref) => refresh?.(ref) });
  const { ref, url: projectUrl } = project.now;
  const publicUrl = new URL(projectUrl).origin;
  const management = createManagement(undefined, publicUrl);
  const server = createGateway({
    publicUrl,
    onlyProject: ref,
    ...lookupsOf(project),
    services,
    trustedProxies,
    rateLimit,
    management,
    revision: () => project.revision,
    log,
    // The journal of the machine has the lines of one project alone, so its owner reads all of them.
    ownerLog: ownerLogTo(log),
  });
  const connected = await connect?.(server);
  const close = async () => {
    // Realtime closes its sockets, for which the server would otherwise wait.
    await Promise.all([endRequests(server), unit.service === 'realtime' && service.close()]);
    connected?.close();
    management.close();
    await project.close();
    await service.close();
  };
  try {
    const url = await listen(server, settings.listen);
    log.info({ service: unit.service, url, revision: project.revision }, 'service started');
    return { url, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Loads only the code of this service: all five need 40 MB more. */
async function createUnit({ unit, reach }: UnitSettings, log: Logger, project: ProjectFile): Promise<Created> {
  const registry = () => project;
  switch (unit.service) {
    case 'auth': {
      const { createAuthService } = await import('../services/auth/index.js');
      const { outboundTo } = await import('@slipway/program/outbound.js');
      return {
        service: createAuthService({ log, ownerLog: ownerLogTo(log), outbound: outboundTo(connectionsOf(reach)) }),
      };
    }
    case 'rest': {
      const { createRestService } = await import('../services/rest/index.js');
      return { service: createRestService() };
    }
    case 'realtime': {
      const { createRealtimeService } = await import('../services/realtime/index.js');
      const replication = async () => project.replicationPassword;
      return { service: createRealtimeService(realtimeOptionsOf(replication, log, registry)) };
    }
    case 'storage': {
      const { createStorageService } = await import('../services/storage/index.js');
      return { service: createStorageService(storageOptionsOf(unit.storage, log, registry)) };
    }
    case 'functions':
      return createFunctions(unit.functions, { allowedNetworks: reach.allowed, log }, project);
  }
}

async function createFunctions(
  settings: FunctionsSettings,
  options: { allowedNetworks: readonly string[]; log: Logger },
  project: ProjectFile,
): Promise<Created> {
  const { url } = project.now;
  const { origin, pathname } = new URL(url);
  const isOwnHost = pathname === '/';
  const places = { publicUrl: origin, ...(isOwnHost && { projectUrl: () => url }) };
  const { createFunctionsService } = await import('../services/functions/index.js');
  const functions = await createFunctionsService(
    functionsOptionsOf(settings, { ...places, ...options }, () => project),
  );
  return {
    service: functions,
    refresh: (ref) => functions.refresh(ref),
    connect: (gateway) => connectFunctions(functions, settings, { gateway, log: options.log }),
  };
}
