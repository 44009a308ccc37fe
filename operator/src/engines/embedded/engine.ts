/**
 * The engine of one machine: each project is a database in the embedded Postgres, and one data plane serves them all.
 * In: a superuser's URL, the data plane's address. Out: the verbs of `Engine`.
 */
import { availableServices, type OpenedServices } from '@slipway/crds';
import type { Logger } from 'pino';
import type {
  DatabaseAddress,
  DatabaseRequest,
  Engine,
  EngineOutcome,
  EngineProject,
  RemoveRequest,
  ServicesOutcome,
  ServicesRequest,
} from '../engine.js';
import { DatabaseServer } from '../postgres/server.js';
import type { EndedSession } from '../postgres/session-watch.js';
import { ServiceProbe } from '../service-probe.js';

export interface EmbeddedEngineSettings {
  /** The tenants' cluster, as superuser. */
  adminDatabaseUrl: string;
  /** Where people reach that cluster: `host:port`. */
  databasePublicAddress: string;
  /** Where the data plane answers. */
  dataplaneUrl: string;
  /** The address of a project's services, for its status. */
  projectUrl(ref: string): string;
  /** Services that the settings open beyond the availability matrix. */
  openedServices?: OpenedServices;
  /**
   * Returns the password of the role that reads changes for realtime, in the Postgres at `host`; without it that role
   * can't log in.
   */
  replicationPassword?: (host: string) => Promise<string>;
  /** Told of each project whose roles or database somebody changed. */
  onDatabaseChange?: (ref: string) => void;
  /** Called for each session of the project that was ended because it harmed others. */
  onSessionEnded?: (ref: string, ended: EndedSession) => void;
  onDatabaseFull?: (ref: string, message: string) => void;
  log: Logger;
}

/** How many databases are kept ready: a handful of projects made at once wait for none, and each costs 8 MB of disk. */
export const SPARES = 5;

export class EmbeddedEngine implements Engine {
  readonly #settings: EmbeddedEngineSettings;
  readonly #database: DatabaseServer;
  readonly #probe: ServiceProbe;

  constructor(settings: EmbeddedEngineSettings) {
    const { adminDatabaseUrl: adminUrl, onDatabaseChange: onChange, onSessionEnded, onDatabaseFull, log } = settings;
    this.#settings = settings;
    const { host } = addressOf(adminUrl);
    const replicationPassword = async () => settings.replicationPassword?.(host);
    const told = { replicationPassword, onChange, onSessionEnded, onDatabaseFull, log };
    this.#database = new DatabaseServer({ adminUrl, spares: SPARES, ofOne: false, ...told });
    this.#probe = new ServiceProbe(settings.dataplaneUrl, settings.projectUrl);
  }

  /** All share one machine: what keeps a project to its own is in Postgres and in the data plane. */
  async ensureIsolation(): Promise<EngineOutcome> {
    return { state: 'ready', value: undefined };
  }

  databaseAddress(): DatabaseAddress {
    const { adminDatabaseUrl, databasePublicAddress: publicAddress } = this.#settings;
    return { ...addressOf(adminDatabaseUrl), publicAddress };
  }

  recordedDatabaseId({ ref }: EngineProject): Promise<string | undefined> {
    return this.#database.recordedId(ref);
  }

  ensureDatabase(request: DatabaseRequest): Promise<EngineOutcome> {
    return this.#database.ensure(request);
  }

  async ensureServices({ project, anonKey }: ServicesRequest): Promise<ServicesOutcome> {
    if (project.suspended) return { outcome: { state: 'ready', value: { services: {} } }, parts: [] };
    const available = availableServices('shared', project.plan, this.#settings.openedServices ?? {});
    const asked = await this.#probe.ask(project.ref, anonKey, available);
    return { outcome: asked.state === 'ready' ? { ...asked, value: { services: asked.value } } : asked, parts: [] };
  }

  verifiersAccept({ project, anonKey }: ServicesRequest): Promise<EngineOutcome> {
    return this.#probe.accepts(project.ref, anonKey);
  }

  remove(request: RemoveRequest): Promise<EngineOutcome> {
    return this.#database.remove(request);
  }

  /** Fills up the spares before anyone asks; what asks meanwhile waits for it. */
  start(): Promise<void> {
    return this.#database.start();
  }

  async close(): Promise<void> {
    await this.#database.close();
    await this.#probe.close();
  }
}

function addressOf(databaseUrl: string): { host: string; port: number } {
  const url = new URL(databaseUrl.replace(/^(\w+:\/\/[^/@]*@)\//, '$1socket/'));
  return {
    host: url.searchParams.get('host') ?? url.hostname,
    port: Number(url.searchParams.get('port') ?? (url.port || 5432)),
  };
}
