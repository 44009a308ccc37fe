/**
 * An engine provisions a project's parts: databases in the embedded Postgres, or objects on a cluster. Its few coarse
 * verbs are idempotent and safe to interrupt: a second call continues. Every engine passes `engine.suite.ts`.
 */
import type { Placement, Plan, ProjectStatus, Region } from '@slipway/crds';
import type { ProjectPasswords } from '@slipway/project-database';

export type EngineOutcome<T = undefined> =
  /**
   * `restored`: what others had changed or deleted and is put right, in words: `Service auth, which was deleted`.
   * `lookAgainMs`: there is something to tidy up then. `databaseId`: the id of the project's database, where the
   * request named another.
   */
  | { state: 'ready'; value: T; restored?: readonly string[]; lookAgainMs?: number; databaseId?: string }
  /** Under way; `message` is for the project's owner. `restored`: what was put back just now and is not there yet. */
  | { state: 'progressing'; reason?: string; message: string; lookAgainMs: number; restored?: readonly string[] }
  /** `retry`: the same call may do better later. `reason` is CamelCase, for programs. */
  | { state: 'failed'; reason: string; message: string; retry: boolean };

/**
 * The reason of a failure after which the database is as it was asked to be, passwords and all, but not where its plan
 * wants it.
 */
export const DATABASE_MOVE_UNSUPPORTED = 'DatabaseMoveUnsupported';

/** The part of a Project that an engine needs. */
export interface EngineProject {
  ref: string;
  /** The uid of the Project, which owns the objects made for it. */
  uid: string;
  owner: string;
  region: Region;
  plan: Plan;
  /** It is to stand still: nothing of it runs, its data stays. */
  suspended: boolean;
  /** Its data is to outlive it: what holds that must not go with the Project by garbage collection. */
  retain: boolean;
  /** Where requests for auth and rest go now, as its status says. */
  placement: Placement | undefined;
}

/** Where a project's database is. */
export interface DatabaseAddress {
  /** For programs inside: a host name, or the directory of a Unix socket. */
  host: string;
  port: number;
  /** For people: `host:port`. */
  publicAddress: string;
}

/** Proves that a database under a project's name belongs to that project. */
export interface DatabaseClaim {
  /** The id in the project's Secret, from which the names in Postgres come. */
  databaseId: string;
  /** Those that Postgres is to have; undefined: nobody knows them any more. */
  passwords: ProjectPasswords | undefined;
  /** Those that Postgres may still have, while they are rotated. */
  former?: ProjectPasswords | undefined;
  /** It was ready once: if it is not there now, data is lost, and an empty one must not take its place. */
  existed: boolean;
}

export interface DatabaseRequest extends DatabaseClaim {
  project: EngineProject;
  passwords: ProjectPasswords;
}

export interface ServicesRequest {
  project: EngineProject;
  anonKey: string;
}

export interface RemoveRequest extends DatabaseClaim {
  ref: string;
  uid: string;
  owner: string;
  region: Region;
  plan: Plan;
  /** Its database stays, for a project of the same name and owner. */
  retain: boolean;
}

export type Services = NonNullable<ProjectStatus['services']>;

/** A part that has a condition of its own. */
export interface EnginePart {
  condition: string;
  outcome: EngineOutcome;
  /** It tells something, but the project is as ready without it. */
  advisory?: boolean;
}

/** How the services are, and each part of them that has a condition of its own. */
export interface ServicesOutcome {
  outcome: EngineOutcome<{ services: Services }>;
  /** Where requests for auth and rest are to go from now on, ready or not; without it, where they go already. */
  placement?: Placement;
  parts: readonly EnginePart[];
}

export interface Engine {
  /** Isolates the project's namespace, before anything runs there. */
  ensureIsolation(project: EngineProject): Promise<EngineOutcome>;
  /** Known before there is a database, as it goes into the Secret that comes first. */
  databaseAddress(project: EngineProject): DatabaseAddress;
  /**
   * Returns the id of the project's database as its server has it recorded; undefined where there is none or the server
   * can't be asked now.
   */
  recordedDatabaseId(project: EngineProject): Promise<string | undefined>;
  /** Makes the database, or puts right what has drifted from what was asked. */
  ensureDatabase(request: DatabaseRequest): Promise<EngineOutcome>;
  /** Asks the services at the project's URL; ready when all that there should be answer. */
  ensureServices(request: ServicesRequest): Promise<ServicesOutcome>;
  /**
   * Ready when all that verify the project's tokens (each replica of each) take `anonKey`, which may be of the next JWT
   * secret.
   */
  verifiersAccept(request: ServicesRequest): Promise<EngineOutcome>;
  /**
   * Ready when nothing of the project is left but what is to be retained; a namespace that stays for it has
   * LABEL_RETAINED.
   */
  remove(request: RemoveRequest): Promise<EngineOutcome>;
  close(): Promise<void>;
}
