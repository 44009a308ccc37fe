/** The request of a build, its events and its result. */
import type { Reach } from '@slipway/program';
import type { Account } from '@slipway/sandbox';

export type Step = 'Cloning' | 'Installing' | 'Building';

export interface BuildRequest {
  /** The project's ref and the name of the Build, for messages and for the account that runs the build. */
  ref: string;
  build: string;
  /** Default: an account of this ref alone. */
  account?: Account;
  source: Source;
  credentials: { token: string | null; deployKey: string | null };
  settings: BuildSettings;
  /** Public variables of the tenant's commands. COMMIT_SHA is added to them. */
  deployment: Deployment;
  /** Variables of the tenant's commands. The clone does not get them. Their values are redacted in the log. */
  env: Readonly<Record<string, string>>;
  /** `work` is for this build only, and the caller removes it. `cache` is for this project only, and stays. */
  folders: { work: string; cache: string };
  limits: BuildLimits;
  /** Networks that the build may connect to. */
  reach: Reach;
  /** A file (PEM) of all certificate authorities that the build trusts. Undefined: the system's. */
  certificates?: string | undefined;
}

/** `BRANCH`: the deployed branch. `SITE_URL`: the address at which the output is served. */
export type Deployment = Readonly<Record<'BRANCH' | 'SITE_URL', string>>;

export interface Source {
  repoUrl: string;
  revision: string;
  submodules: boolean;
  /** If this is the newest commit of the branch, nothing is built, and the build ends with `Unneeded`. */
  unless?: string | undefined;
}

/** Undefined values are detected from the sources. An empty command skips its step. */
export interface BuildSettings {
  rootDir: string | undefined;
  framework: string | undefined;
  installCommand: string | undefined;
  buildCommand: string | undefined;
  outputDir: string | undefined;
}

export interface BuildLimits {
  /** Timeout of the whole build in milliseconds. */
  milliseconds: number;
  /** Maximum private memory of one process. */
  processMemoryBytes: number;
  /** Maximum memory of all processes together. */
  memoryBytes: number;
  processes: number;
  /** Maximum disk space of sources, installed packages and output together. */
  diskBytes: number;
  logBytes: number;
}

export interface BuildEvents {
  step(step: Step): void;
  /** Called once the commit is cloned. */
  commit(sha: string): void;
  /** Called with a part of a step's log, already redacted. */
  log(section: string, text: string): void;
}

/** The values that the build used where the settings are undefined. */
export interface Detected {
  framework: string;
  installCommand: string;
  buildCommand: string;
  outputDir: string;
  packageManager: string | undefined;
  nodeVersion: string | undefined;
}

export interface BuildResult {
  /** The folder of the output. Its content is hostile. */
  output: string;
  commit: string;
  detected: Detected;
}

/** An invalid setting or file of the tenant. The message is for the tenant. */
export class Refused extends Error {}

/** The branch has no newer commit than the one that the request names. */
export class Unneeded extends Error {}

/** A build that failed. `message` is for the tenant. */
export class BuildFailed extends Error {
  constructor(
    readonly step: Step,
    readonly exitCode: number | null,
    message: string,
  ) {
    super(message);
  }
}
