import type { Plan, Region } from '@slipway/crds';
import type { ProjectPasswords } from '@slipway/project-database';
import type { EngineOutcome } from './outcome.js';
import type { EngineProject } from './project.js';

/** A Postgres database for each project. Every engine passes `engine.suite.ts`. */
export interface Databases {
  /**
   * Returns the address of the database. It is known before the database exists, as it goes into the Secret that is
   * made first.
   */
  addressOf(project: EngineProject): DatabaseAddress;
  /**
   * Returns the id of the project's database in its server's record. Undefined if there is none, or if the server is
   * unavailable.
   */
  recordedId(project: EngineProject): Promise<string | undefined>;
  /** Creates the database, or repairs its drift from the request. */
  ensure(request: DatabaseRequest): Promise<EngineOutcome>;
  /** Undefined: not known now, or not limited. */
  usage(project: EngineProject): Promise<Usage | undefined>;
  /**
   * Ready when only the retained data of the database is left. A namespace that stays for that data has LABEL_RETAINED.
   */
  remove(request: RemoveRequest): Promise<EngineOutcome>;
}

/**
 * Reason of a failure to move a database to the place of its plan. In everything else, passwords included, the database
 * is as requested.
 */
export const DATABASE_MOVE_UNSUPPORTED = 'DatabaseMoveUnsupported';

/** The address of a project's database. */
export interface DatabaseAddress {
  /** For programs of the platform: a host name, or the directory of a Unix socket. */
  host: string;
  port: number;
  /** Address for users, `host:port`. */
  publicAddress: string;
}

/** Proves that a database under a project's name belongs to that project. */
export interface DatabaseClaim {
  /** The id in the project's Secret. The names in Postgres are derived from it. */
  databaseId: string;
  /** The passwords to set in Postgres. Undefined: they are lost. */
  passwords: ProjectPasswords | undefined;
  /** The former passwords, which Postgres may still have during a rotation. */
  former?: ProjectPasswords | undefined;
  /**
   * True if the database was ready once. If it does not exist now, data is lost, and an empty database must not take
   * its place.
   */
  existed: boolean;
}

export interface DatabaseRequest extends DatabaseClaim {
  project: EngineProject;
  passwords: ProjectPasswords;
}

export interface RemoveRequest extends DatabaseClaim {
  ref: string;
  uid: string;
  owner: string;
  region: Region;
  plan: Plan;
  /** True if the database stays, for a project of the same name and owner. */
  retain: boolean;
}

/** Use and limit in bytes. */
export interface Usage {
  used: number;
  limit: number;
  /** A sentence that says which logins are shut because the database kept growing, and until when. */
  shut?: string;
}
