/** Assembles the server: store, registry, controllers and the listener. */
import type { Logger } from 'pino';
import { Definitions } from './controllers/definitions.js';
import { EventExpiry } from './controllers/event-expiry.js';
import { GarbageCollector } from './controllers/garbage-collector.js';
import { Namespaces } from './controllers/namespaces.js';
import { Authentication, type TokenUser } from './http/authentication.js';
import type { ConnectionLimits } from './http/connection-guard.js';
import { Discovery } from './http/discovery.js';
import { listen } from './http/listener.js';
import type { Routing } from './http/router.js';
import { DEFINITIONS } from './resources/builtin/custom-resource-definition.js';
import { Registry } from './resources/registry.js';
import { Writes } from './resources/writes.js';
import type { EncryptionKeys } from './storage/encryption.js';
import { Store } from './storage/store.js';

export interface ApiServerSettings {
  listen: { host: string; port: number };
  tls: { cert: string; key: string };
  databaseUrl: string;
  encryptionKeys: EncryptionKeys;
  tokens: readonly TokenUser[];
  log: Logger;
  /** Limits on connections. Only tests set them. */
  limits?: Partial<ConnectionLimits> | undefined;
  /** Called when the server can't continue, because another process changed the tables. */
  onFatal?: (error: Error) => void;
}

export interface ApiServer {
  url: string;
  close(): Promise<void>;
}

export async function startApiServer(settings: ApiServerSettings): Promise<ApiServer> {
  const { databaseUrl, encryptionKeys: keys, log } = settings;
  const store = await Store.open({ databaseUrl, keys, log });
  try {
    return await serve(store, settings);
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function serve(store: Store, settings: ApiServerSettings): Promise<ApiServer> {
  const { log, tls, tokens } = settings;
  const registry = new Registry(store);
  const writes = new Writes(store);
  const parts = { store, registry, writes, log };
  const controllers = [
    new Namespaces(parts),
    new Definitions(parts),
    new GarbageCollector(parts),
    new EventExpiry(parts),
  ];
  store.onFatal = settings.onFatal ?? (() => {});
  for (const controller of controllers) await controller.start();
  const routing: Routing = { store, registry, writes, discovery: new Discovery(registry), watches: new Set() };
  endWatchesOfUndefined(routing);
  const authentication = new Authentication(tokens);
  const { limits } = settings;
  const listener = await listen({ ...settings.listen, tls, authentication, routing, log, limits });
  const { host } = settings.listen;
  const url = `https://${host.includes(':') ? `[${host}]` : host}:${listener.port}`;
  log.info({ url }, 'server started');
  return {
    url,
    close: async () => {
      await listener.close();
      for (const controller of controllers) controller.stop();
      await store.close();
    },
  };
}

/** Ends watches of resources whose definition was deleted. They would never get events of a later definition. */
function endWatchesOfUndefined({ store, watches }: Routing): void {
  store.observers.add(({ type, stored }) => {
    if (type !== 'DELETED' || stored.resource !== DEFINITIONS) return;
    for (const stream of watches) if (stream.resource.storage === stored.name) setImmediate(() => stream.end());
  });
}
