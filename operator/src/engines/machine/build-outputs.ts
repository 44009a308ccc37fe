/** The outputs that builds of one type of project make on this machine. Each method is idempotent. */
import type { BuildEvents, Credentials } from '@slipway/kaniko-build-wrapper';
import type { BuildName, BuildOrder, BuildState, KeptBuilds, Rollback } from '../../capabilities/index.js';

/** The attempt of a build that makes an output. */
export interface BuildAttempt {
  order: BuildOrder;
  /** A folder for this attempt alone, which is deleted after it. */
  work: string;
  credentials: Credentials;
  /** Maximum bytes of memory of all its processes. */
  memoryBytes: number;
  events: BuildEvents;
  /** Records that the commands have ended, and what they were. */
  built(detected: NonNullable<BuildState['detected']>): void;
  /** Adds a line of the platform to the log. */
  line(text: string): void;
  signal: AbortSignal;
}

export interface BuildOutputs {
  /** Starts to delete what an earlier process left. */
  begin(): void;
  /**
   * Makes the output, and takes it live. Resolves with its bytes, if they are known. Rejects with BuildFailed or
   * OutputFailed for a failure of the owner's, or with the signal's reason.
   */
  make(attempt: BuildAttempt): Promise<number | undefined>;
  goLive(build: BuildName): Promise<Rollback>;
  liveBuild(site: string): Promise<string | undefined>;
  /** `written`: the sites that running builds may write to. */
  keepOnly(ref: string, kept: KeptBuilds, written: readonly string[]): Promise<void>;
  bytes(ref: string): Promise<number>;
  clearCache(ref: string): Promise<void>;
  remove(ref: string): Promise<void>;
  close(): Promise<void>;
}

/** The output was made, and can not go live. The message is for the owner. */
export class OutputFailed extends Error {
  constructor(
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}
