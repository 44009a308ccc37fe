/** The databases of one machine: each project has one in the embedded Postgres. In: a superuser's URL. */
import type { Logger } from 'pino';
import type {
  DatabaseAddress,
  DatabaseRequest,
  Databases,
  EngineOutcome,
  EngineProject,
  RemoveRequest,
  Usage,
} from '../../capabilities/index.js';
import { DatabaseServer } from '../postgres/server.js';
import type { EndedSession } from '../postgres/session-watch.js';

export interface MachineDatabasesSettings {
  /** URL of a superuser in the tenants' cluster. */
  adminDatabaseUrl: string;
  /** The address of that cluster for users: `host:port`. */
  databasePublicAddress: string;
  /**
   * Returns the password of the role that reads changes for realtime, in the Postgres at `host`. Without a password
   * that role can't log in.
   */
  replicationPassword?: (host: string) => Promise<string>;
  /** Called for each project whose roles or database were changed from outside. */
  onDatabaseChange?: (ref: string) => void;
  /** Called for each session of the project that was ended because it harmed others. */
  onSessionEnded?: (ref: string, ended: EndedSession) => void;
  onDatabaseFull?: (ref: string, message: string) => void;
  log: Logger;
}

/**
 * Number of spare databases. With it, a handful of projects that are created at once need not wait. Each spare database
 * takes 8 MB of disk.
 */
export const SPARES = 5;

export class MachineDatabases implements Databases {
  readonly #address: DatabaseAddress;
  readonly #server: DatabaseServer;

  constructor(settings: MachineDatabasesSettings) {
    const { adminDatabaseUrl: adminUrl, onDatabaseChange: onChange, onSessionEnded, onDatabaseFull, log } = settings;
    this.#address = { ...placeOf(adminUrl), publicAddress: settings.databasePublicAddress };
    const replicationPassword = async () => settings.replicationPassword?.(this.#address.host);
    const told = { replicationPassword, onChange, onSessionEnded, onDatabaseFull, log };
    this.#server = new DatabaseServer({ adminUrl, spares: SPARES, ofOne: false, ...told });
  }

  addressOf(_project: EngineProject): DatabaseAddress {
    return this.#address;
  }

  recordedId({ ref }: EngineProject): Promise<string | undefined> {
    return this.#server.recordedId(ref);
  }

  ensure(request: DatabaseRequest): Promise<EngineOutcome> {
    return this.#server.ensure(request);
  }

  async usage({ ref }: EngineProject): Promise<Usage | undefined> {
    return this.#server.usage(ref);
  }

  remove(request: RemoveRequest): Promise<EngineOutcome> {
    return this.#server.remove(request);
  }

  /** Starts to make spares. Requests wait for it. */
  start(): Promise<void> {
    return this.#server.start();
  }

  close(): Promise<void> {
    return this.#server.close();
  }
}

function placeOf(databaseUrl: string): { host: string; port: number } {
  const url = new URL(databaseUrl.replace(/^(\w+:\/\/[^/@]*@)\//, '$1socket/'));
  return {
    host: url.searchParams.get('host') ?? url.hostname,
    port: Number(url.searchParams.get('port') ?? (url.port || 5432)),
  };
}
