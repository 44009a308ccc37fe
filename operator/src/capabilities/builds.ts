/** Runs builds of sites and apps, and publishes their output. Each method is idempotent. */
import type { BuildStatus, BuildStep, Plan } from '@slipway/crds';
import type { BuildLimits } from '@slipway/installation';

/**
 * Number of outputs of a site that are kept beside the live one: for rollbacks, and for pages that are open in
 * browsers.
 */
export const DEPLOYMENTS_KEPT = 5;

/** The name of a Build in a project. */
export interface BuildName {
  ref: string;
  name: string;
}

export interface BuildOrder extends BuildName {
  /** The site that the output belongs to: the ref, or the name of a preview of the project. */
  site: string;
  repoUrl: string;
  /** The revision to build: a branch, tag or commit. */
  revision: string;
  /** The branch that is deployed, for the build's commands. */
  branch: string;
  /** A commit. If it is the newest one, nothing is built. */
  unless: string | undefined;
  /** Whether submodules are cloned too. */
  submodules: boolean;
  /** Ticket with which the build fetches the project's git credentials once. */
  ticket: string;
  settings: BuildSettings;
  plan: Plan;
  /** Variables of the build's commands. */
  env: Readonly<Record<string, string>>;
  limits: BuildLimits;
}

/** Settings of a build. Undefined: detected. An empty command: the build has no such step. */
export interface BuildSettings {
  installCommand: string | undefined;
  buildCommand: string | undefined;
  outputDir: string | undefined;
  /** Undefined: the top folder of the repository. */
  rootDir: string | undefined;
}

export interface BuildStepState {
  name: BuildStep;
  startedAt: Date;
  finishedAt?: Date;
  exitCode?: number;
}

/** The progress of a build that this process started. */
export interface BuildState {
  steps: readonly BuildStepState[];
  commit?: string;
  detected?: NonNullable<BuildStatus['detected']>;
  /** True if the git credentials were fetched: the ticket is void then. */
  hasCredentials: boolean;
  end?: BuildEnd;
}

export type BuildEnd =
  /** `bytes`: the size of the deployed files. */
  | { kind: 'deployed'; at: Date; bytes?: number }
  /** `message` is for the owner. `retry`: the machine failed, not the build, so another attempt may succeed. */
  | { kind: 'failed'; at: Date; reason: string; message: string; retry: boolean }
  /** The newest commit is the one in the order's `unless`. */
  | { kind: 'unneeded'; at: Date }
  | { kind: 'stopped'; at: Date };

export type Rollback =
  | { kind: 'live' }
  /** The version starts. `onChange` reports its end. */
  | { kind: 'pending'; message: string }
  /** The output is not kept. */
  | { kind: 'absent' }
  /** The former output is served as before. */
  | { kind: 'failed'; reason: string; message: string };

export interface KeptBuilds {
  /** Names of the builds whose logs are kept. */
  builds: ReadonlySet<string>;
  /** Names of previews. */
  previews: ReadonlySet<string>;
  /** The number of deployments of the site that are kept beside the live one. A preview keeps at most one. */
  deployments: number;
}

export interface Builds {
  /** The number of builds that run at the same time. */
  readonly atOnce: number;
  /**
   * The isolation that this installation has no means for, in words for people. Without it no build runs. Undefined:
   * nothing is missing.
   */
  readonly lacking: string | undefined;
  /** Whether `unless` has an effect. */
  readonly checksPushes: boolean;
  /** Starts a build. `stateOf` returns its progress, and the reason if it could not start. */
  start(order: BuildOrder): void;
  /** Returns the names of the project's builds with a state. */
  started(ref: string): string[];
  /** Undefined: the build was not started here, or was forgotten. */
  stateOf(build: BuildName): BuildState | undefined;
  /**
   * Ends the build's processes. It may resolve earlier: once no process is left, `stateOf` has an end, and a change is
   * reported. A repeated call checks again.
   */
  stop(build: BuildName): Promise<void>;
  /** Drops the state of a build whose end is recorded elsewhere. */
  forget(build: BuildName): void;
  /** Serves the output of an earlier build. A repeated call returns how it is going. */
  goLive(build: BuildName): Promise<Rollback>;
  /** Returns the name of the build whose output the site or preview serves. Undefined: none. */
  liveBuild(site: string): Promise<string | undefined>;
  /** Deletes all other logs, outputs and previews. The live outputs, and a preview with a running build, stay. */
  keepOnly(ref: string, kept: KeptBuilds): Promise<void>;
  /**
   * Returns the bytes on the disk of the project's deployments, build caches and logs. Undefined: they are not known.
   */
  diskBytes(ref: string): Promise<number | undefined>;
  /**
   * Deletes the cached packages, so that the next build begins without them. Returns false if a build uses them now.
   */
  clearCache(ref: string): Promise<boolean>;
  /** Deletes all that the project's builds left: processes, outputs, logs and cache. */
  remove(ref: string): Promise<void>;
  /** Calls `listener` with the ref of each project whose build changed its state. */
  onChange(listener: (ref: string) => void): void;
}
