/**
 * What drives a project's parts: databases in the embedded Postgres, or objects on a cluster. Few coarse verbs, each
 * idempotent and safe to be cut short anywhere: called again, it goes on. `engine.suite.ts` is what every engine must pass.
 */
import type { Plan, ProjectStatus } from '@slipway/crds';
import type { ProjectPasswords } from '@slipway/project-database';

export type EngineOutcome<T = undefined> =
  | { state: 'ready'; value: T }
  /** Under way; `message` is for the project's owner. */
  | { state: 'progressing'; message: string; lookAgainMs: number }
  /** `retry`: the same call may do better later. `reason` is CamelCase, for programs. */
  | { state: 'failed'; reason: string; message: string; retry: boolean };

/** Where a project's database is. */
export interface DatabaseAddress {
  /** For programs inside: a host name, or the directory of a Unix socket. */
  host: string;
  port: number;
  database: string;
  /** For people: `host:port`. */
  publicAddress: string;
}

export interface DatabaseRequest {
  ref: string;
  passwords: ProjectPasswords;
  /** It was ready once: if it is not there now, data is lost, and an empty one must not take its place. */
  existed: boolean;
}

export interface ServicesRequest {
  ref: string;
  anonKey: string;
  plan: Plan;
}

export type Services = NonNullable<ProjectStatus['services']>;

export interface Engine {
  /** Known before there is a database, as it goes into the Secret that comes first. */
  databaseAddress(ref: string): DatabaseAddress;
  /** Makes the database, or puts right what has drifted from what was asked. */
  ensureDatabase(request: DatabaseRequest): Promise<EngineOutcome>;
  /** Asks the services at the project's URL; ready when all that there should be answer. */
  ensureServices(request: ServicesRequest): Promise<EngineOutcome<Services>>;
  /** Ready when nothing of the project is left. */
  remove(ref: string): Promise<EngineOutcome>;
  close(): Promise<void>;
}
