/** Limits and timeouts of functions, in one object so that a test may pass smaller ones. */
import { availableParallelism, totalmem } from 'node:os';

export interface FunctionLimits {
  /** MiB of V8's old generation, beyond which the isolate aborts. */
  heapMegabytes: number;
  /** MiB of the process, beyond which the isolate is ended. Includes array buffers, which are not in the heap. */
  residentMegabytes: number;
  /** MiB of all isolates together, beyond which the largest is ended. */
  togetherMegabytes: number;
  /** MiB of one project's isolates and deploy checks, beyond which the largest is ended. */
  megabytesOfProject: number;
  /** MiB of all projects of one account, likewise. */
  megabytesOfAccount: number;
  /** MiB of the processes that check one source, beyond which the deploy fails. */
  checkMegabytes: number;
  /**
   * Cores that one project's isolates may use permanently. Further use is taken from `cpuMillisecondsOfShare`; when
   * that is used up, calls are rejected.
   */
  coresOfProject: number;
  coresOfAccount: number;
  /** Maximum balance of processor time of a project, or an account. */
  cpuMillisecondsOfShare: number;
  /** CPU that each request adds to its isolate's balance. An isolate with an empty balance is ended. */
  cpuMillisecondsPerRequest: number;
  /** Balance of an isolate before its first request, and its maximum. */
  cpuMillisecondsAtMost: number;
  /** Milliseconds to the first byte of a response. */
  firstByteMilliseconds: number;
  /** Milliseconds to the last byte of a response. */
  wallMilliseconds: number;
  /** Time from the start of an isolate until it serves. */
  bootMilliseconds: number;
  /** Time to resolve and fetch the imports of a source, before it starts. The operator's timeout covers both. */
  resolveMilliseconds: number;
  /** MiB on disk of the packages that a project's functions import. */
  cacheMegabytes: number;
  /** Concurrent deploys of one project, so that other projects get a turn. */
  deploysOfProject: number;
  deploysOfAccount: number;
  /** Maximum number of concurrent deploys of all projects. */
  deploys: number;
  /** Concurrent requests in one isolate; a further one is rejected. */
  concurrency: number;
  /** Maximum number of isolates on this machine. */
  isolates: number;
  isolatesOfProject: number;
  isolatesOfAccount: number;
  /** An isolate without a request for this time is ended. */
  idleMilliseconds: number;
  /** Limits of a function's log. */
  logLines: number;
  logLineBytes: number;
  /** Maximum bytes of all log lines of one function. */
  logBytes: number;
  /** Bytes of output that are read from an isolate in a second; one that writes more is slowed down. */
  logBytesPerSecond: number;
  /** Milliseconds between checks of processor time and memory. */
  lookMilliseconds: number;
  /** Milliseconds between reads of the addresses of this machine. */
  addressMilliseconds: number;
}

/** MiB that the platform's own process may use in a container whose memory limit applies to all processes together. */
const OWN_MEGABYTES = 512;
const BYTES_PER_MEGABYTE = 1024 * 1024;

/** A container that runs out of memory may lose all processes at once, so one isolate is ended before. */
function togetherMegabytes(): number {
  const bytes = process.constrainedMemory();
  // Without a limit it is 0, or more than the machine has: then half of the memory is left to Postgres and the
  // platform.
  if (bytes === 0 || bytes > totalmem()) return totalmem() / BYTES_PER_MEGABYTE / 2;
  const megabytes = bytes / BYTES_PER_MEGABYTE;
  return Math.max(megabytes - OWN_MEGABYTES, megabytes / 2);
}

const ISOLATES = 64;
const RESIDENT_MEGABYTES = 512;
const CHECK_MEGABYTES = 512;
const TOGETHER_MEGABYTES = togetherMegabytes();
/** Memory share of a project or account, at least that of one isolate. */
const share = (part: number) => Math.max(RESIDENT_MEGABYTES, TOGETHER_MEGABYTES * part);
const cores = (part: number) => Math.max(1, availableParallelism() * part);

/** The concurrent deploys of one account are fewer than those of all. */
export const deployShares = (megabytes: number) => {
  const deploys = Math.max(2, Math.min(8, Math.floor(megabytes / CHECK_MEGABYTES)));
  return { deploysOfProject: Math.min(2, deploys - 1), deploysOfAccount: Math.min(4, deploys - 1), deploys };
};

export const LIMITS: FunctionLimits = {
  heapMegabytes: 256,
  residentMegabytes: RESIDENT_MEGABYTES,
  togetherMegabytes: TOGETHER_MEGABYTES,
  megabytesOfProject: share(1 / 4),
  megabytesOfAccount: share(1 / 2),
  checkMegabytes: CHECK_MEGABYTES,
  coresOfProject: cores(1 / 2),
  coresOfAccount: cores(3 / 4),
  cpuMillisecondsOfShare: 60_000,
  cpuMillisecondsPerRequest: 2_000,
  cpuMillisecondsAtMost: 20_000,
  firstByteMilliseconds: 150_000,
  wallMilliseconds: 400_000,
  bootMilliseconds: 15_000,
  resolveMilliseconds: 105_000,
  cacheMegabytes: 1_024,
  ...deployShares(share(1 / 2)),
  concurrency: 100,
  isolates: ISOLATES,
  isolatesOfProject: ISOLATES / 4,
  isolatesOfAccount: ISOLATES / 2,
  idleMilliseconds: 120_000,
  logLines: 1_000,
  logLineBytes: 4_096,
  logBytes: 1024 * 1024,
  logBytesPerSecond: 512 * 1024,
  lookMilliseconds: 200,
  addressMilliseconds: 5_000,
};
