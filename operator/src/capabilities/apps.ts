import type { EngineOutcome } from './outcome.js';
import type { EngineProject } from './project.js';

/** The settings of an app's container, beside its image. */
export interface AppSettings {
  variables: Readonly<Record<string, string>>;
  /** Undefined: the port must accept a connection. */
  healthCheckPath: string | undefined;
  /** A changed number starts the container again. */
  restart: number;
  /** Undefined: the container reaches no project of this installation. */
  link: DatabaseLink | undefined;
  /** The address to which the data plane forwards requests now, as the Project's status has it. */
  upstream: string | undefined;
}

/** The project that an app uses. Its variables are among those of the app. */
export interface DatabaseLink {
  project: string;
  /** The host name of the project's URL in the container. */
  host: string;
}

/** The container of an app as it is now. */
export interface AppView {
  /** The address at which the container serves, `host:port`. Undefined: there is none that served yet. */
  upstream?: string;
  image?: string;
  startedAt?: string;
  restarts: number;
  lastExitCode?: number;
  memoryBytes?: number;
}

/** Containers of apps. Builds make their images. Each method is idempotent. */
export interface Apps {
  /**
   * TCP ports at which containers reach the services and the database of a linked project. Undefined: they can't, as
   * the platform has no IPv4 address.
   */
  readonly linkPorts: { services: number; database: number } | undefined;
  /** Returns the addresses from which the containers of the project connect. */
  addressesOf(ref: string): Promise<string[]>;
  /**
   * Runs the live version with these settings, and ends the containers of former ones. Ready when it runs, or when
   * nothing was deployed yet.
   */
  ensure(project: EngineProject, settings: AppSettings): Promise<{ outcome: EngineOutcome; view: AppView }>;
  /** Ends the containers of a project whose images stay. */
  stop(ref: string): Promise<void>;
  /** Deletes the project's containers and images. */
  remove(ref: string): Promise<void>;
  /** Calls `listener` with the ref of each project whose container changed. */
  onChange(listener: (ref: string) => void): void;
}
